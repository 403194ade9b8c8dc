package rdbfile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/rdb/rdbfile"
)

// TestWriter reads a file that was written in parts.
func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := rdbfile.New(&b, rdbfile.Version)
	w.Function([]byte("#!lua name=f\n"))
	w.Select(3)
	w.Key([]byte("small"), []byte("\x00\x01a"), 0)
	list := rdb.AppendHead(nil, rdb.List, 300)
	w.Key([]byte("list"), list, 1<<41)
	elem := strings.Repeat("e", 1000)
	for range 298 {
		w.Part(rdb.AppendString(nil, []byte(elem)))
	}
	long := strings.Repeat("l", 2*rdbfile.PartBytes)
	w.Part(rdb.AppendString(nil, []byte(long)))
	w.Part(rdb.AppendString(nil, nil))
	require.NoError(t, w.End())

	f, err := rdb.NewFile(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<30)
	require.NoError(t, err)
	i, err := f.Next()
	require.NoError(t, err)
	if string(i.Function) != "#!lua name=f\n" {
		t.Errorf("library %q", i.Function)
	}
	i, err = f.Next()
	require.NoError(t, err)
	if i.DB != 3 || string(i.Key) != "small" || string(i.Value.String) != "a" || i.Expires {
		t.Errorf("%+v", i)
	}
	i, err = f.Next()
	require.NoError(t, err)
	e := i.Value.Elems
	if i.DB != 3 || string(i.Key) != "list" || i.Expire != 1<<41 || len(e) != 300 || string(e[297]) != elem ||
		string(e[298]) != long || len(e[299]) != 0 {
		t.Errorf("key %q of database %d, %d elements", i.Key, i.DB, len(e))
	}
	if _, err = f.Next(); err != io.EOF { // with the right checksum
		t.Error(err)
	}
}

var errFull = errors.New("full")

// limited takes a number of writes.
type limited int

func (l *limited) Write(b []byte) (int, error) {
	if *l--; *l < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestWriterError: the first error stays.
func TestWriterError(t *testing.T) {
	l := limited(1)
	w := rdbfile.New(&l, rdbfile.Version)
	part := make([]byte, rdbfile.PartBytes)
	w.Key([]byte("k"), []byte("\x00"), 0)
	for range 4 {
		w.Part(part)
	}
	if w.Err() != errFull || w.End() != errFull || l != -1 {
		t.Errorf("%v, %d", w.Err(), l)
	}
}
