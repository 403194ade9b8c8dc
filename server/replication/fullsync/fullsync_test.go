package fullsync

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// source replies as a master that has made a checkpoint in a directory.
type source struct {
	dir   string
	names []string
	mu    sync.Mutex
	left  int               // bytes until connections end; < 0 = they do not
	asked []string          // the files that were
	amid  func(name string) // called when half of a file is sent
}

// newSource makes a database of several table files, and its checkpoint. A compaction drops nothing of the files'
// family, and the files are too few to start one.
func newSource(t *testing.T) *source {
	db := enginetest.Open(t)
	for i := range 30 {
		key := fmt.Append(nil, i)
		enginetest.Update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			rec := tx.Fresh(key, cf.TypeString)
			tx.SaveAppend(&rec, make([]byte, 1000))
			return nil
		})
		if i%8 == 0 {
			require.NoError(t, db.FlushMemtable(cf.Metadata))
		}
	}
	s := &source{dir: t.TempDir() + "/checkpoint", left: -1}
	require.NoError(t, db.Checkpoint(s.dir))
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	for _, e := range entries {
		s.names = append(s.names, e.Name())
	}
	return s
}

func (s *source) dial(ctx context.Context) (*lineconn.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return lineconn.New(ctx, ours, nil), nil
}

// send counts the bytes sent, and ends at the limit.
func (s *source) send(c net.Conn, b []byte) bool {
	s.mu.Lock()
	if s.left >= 0 {
		b = b[:min(len(b), s.left)]
		s.left -= len(b)
	}
	ended := s.left == 0
	s.mu.Unlock()
	_, err := c.Write(b)
	return err == nil && !ended
}

func (s *source) serve(c net.Conn) {
	defer c.Close()
	words, err := wiretest.ReadCommand(bufio.NewReader(c))
	if err != nil {
		return
	}
	if len(words) == 1 {
		s.send(c, proto.AppendFileList(nil, s.names))
		return
	}
	for _, name := range strings.Split(words[1], ",") {
		b, _ := os.ReadFile(filepath.Join(s.dir, name))
		s.mu.Lock()
		s.asked = append(s.asked, name)
		s.mu.Unlock()
		half := len(b) / 2
		if !s.send(c, proto.AppendFileHead(nil, int64(len(b)))) || !s.send(c, b[:half]) {
			return
		}
		if s.amid != nil {
			s.amid(name)
		}
		if !s.send(c, b[half:]) {
			return
		}
	}
}

func (s *source) fetcher(t *testing.T) *Fetcher {
	return New(Options{Dir: t.TempDir() + "/sync", Log: zap.NewNop(), Meter: new(Meter),
		Dial: func() (*lineconn.Conn, error) { return s.dial(t.Context()) }})
}

// attempt fetches all files.
func attempt(f *Fetcher) error {
	names, err := f.List()
	if err != nil {
		return err
	}
	return f.Fetch(names)
}

// TestFetch: the directory becomes equal to the master's, also when a connection is cut after any byte. Complete table
// files are not fetched again.
func TestFetch(t *testing.T) {
	s := newSource(t)
	f := s.fetcher(t)
	attempts := 0
	for left := 500; ; left += 2000 {
		s.mu.Lock()
		s.left = left
		s.mu.Unlock()
		attempts++
		err := attempt(f)
		if err == nil {
			break
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if attempts == 1 { // what a later checkpoint does not have
			if err := os.WriteFile(f.Dir+"/000099.sst", nil, 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	if attempts < 3 {
		t.Fatalf("only %d attempts", attempts)
	}
	got, _ := os.ReadDir(f.Dir)
	if len(got) != len(s.names) {
		t.Errorf("%q, want %q", got, s.names)
	}
	tables := 0
	for _, name := range s.names {
		a, _ := os.ReadFile(filepath.Join(s.dir, name))
		b, err := os.ReadFile(filepath.Join(f.Dir, name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s: %d bytes, want %d: %v", name, len(b), len(a), err)
		}
		if lasting(name) {
			tables++
		}
	}
	slices.Sort(s.asked)
	again := 0
	for i, name := range s.asked {
		if i > 0 && name == s.asked[i-1] && lasting(name) {
			again++
		}
	}
	if again >= attempts { // the one that was cut
		t.Errorf("%d table files were asked for again in %d attempts", again, attempts)
	}
	if tables < 3 {
		t.Fatalf("only %d table files", tables)
	}
	require.NoError(t, f.Clear())
	if _, err := os.Stat(f.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFullDisk: when the disk is full in the middle of a file, the attempt fails with that reason. The next attempt,
// with enough room, fetches that file again as a whole, and no table file that was complete.
func TestFullDisk(t *testing.T) {
	s := newSource(t)
	const big = "000999.sst" // more than what buffers hold: half of it arrives only after the look at the disk
	require.NoError(t, os.WriteFile(s.dir+"/"+big, bytes.Repeat([]byte("big"), 1<<20), 0o644))
	s.names = append(s.names, big)
	disk := enginetest.MountSmall(t, spaceLeft+16<<20)
	f := s.fetcher(t)
	f.Dir = disk + "/sync"
	s.amid = func(name string) {
		if name == big {
			enginetest.FillDisk(t, disk+"/ballast")
		}
	}
	if err := attempt(f); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), big) {
		t.Fatalf("%v, want %v", err, syscall.ENOSPC)
	}
	if err := attempt(f); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("still full: %v", err)
	}
	s.amid = nil
	require.NoError(t, os.Remove(disk+"/ballast"))
	s.asked = nil
	require.NoError(t, attempt(f))
	got, err := os.ReadFile(f.Dir + "/" + big)
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte("big"), 1<<20)) {
		t.Errorf("%s: %d bytes, %v", big, len(got), err)
	}
	if i := slices.IndexFunc(s.asked, func(name string) bool { return lasting(name) && name != big }); i >= 0 {
		t.Errorf("%s was asked for again", s.asked[i])
	}
}

// TestMeter: bytes that were already there do not count in the rate.
func TestMeter(t *testing.T) {
	s := newSource(t)
	f := s.fetcher(t)
	require.NoError(t, attempt(f))
	p := f.Meter.Get(f.Meter.began.Add(1e9))
	total, tables := int64(0), int64(0)
	for _, name := range s.names {
		info, _ := os.Stat(filepath.Join(s.dir, name))
		total += info.Size()
		if lasting(name) {
			tables += info.Size()
		}
	}
	if p.Files != len(s.names) || p.FilesDone != p.Files || p.Bytes != total || p.BytesDone != total || p.Rate != total ||
		p.Left != 0 {
		t.Errorf("%+v, want %d bytes", p, total)
	}
	require.NoError(t, attempt(f))
	if p := f.Meter.Get(f.Meter.began.Add(1e9)); p.BytesDone != p.Bytes || p.Rate != total-tables {
		t.Errorf("once more: %+v", p)
	}
	f.Meter.End()
	if p := f.Meter.Get(f.Meter.began); p != (Progress{}) {
		t.Errorf("at the end: %+v", p)
	}
}
