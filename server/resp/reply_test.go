package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

var replyLimits = ReplyLimits{Text: math.MaxInt64, Keep: 1 << 10, Elems: 1 << 16, Depth: 8}

func TestReadReply(t *testing.T) {
	long := strings.Repeat("x", 5000)
	number := Reply{Kind: ':', Int: 1}
	null := Reply{Kind: '$', Null: true}
	for in, want := range map[string]Reply{
		"+OK\r\n":                   {Kind: '+', Text: []byte("OK")},
		"-ERR no\r\n":               {Kind: '-', Text: []byte("ERR no")},
		":-12\r\n":                  {Kind: ':', Int: -12},
		"$-1\r\n":                   null,
		"$0\r\n\r\n":                {Kind: '$', Text: []byte{}},
		"$2\r\nab\r\n":              {Kind: '$', Text: []byte("ab")},
		"$5000\r\n" + long + "\r\n": {Kind: '$', Text: []byte(long[:1<<10])},
		"*-1\r\n":                   {Kind: '*', Null: true},
		"*0\r\n":                    {Kind: '*', Elems: []Reply{}},
		"*2\r\n:1\r\n*1\r\n$-1\r\n": {Kind: '*', Elems: []Reply{number, {Kind: '*', Elems: []Reply{null}}}},
		strings.Repeat("*1\r\n", 9): {},
		"$3\r\nab\r\n\r\n":          {},
		"$x\r\n":                    {},
		":x\r\n":                    {},
		"$-2\r\n":                   {},
		"?\r\n":                     {},
		"\n":                        {},
		"*100000\r\n":               {},
		"*2\r\n:1\r\n":              {},
		"+" + strings.Repeat("x", 10_000) + "\r\n": {},
	} {
		got, err := ReadReply(bufio.NewReader(strings.NewReader(in)), replyLimits)
		if want.Kind == 0 {
			if !errors.Is(err, ErrReply) && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
				t.Errorf("%.40q: %v", in, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q: %+v, %v", in, got, err)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	want := "*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n"
	if got := AppendCommand(nil, "GET", "\r\n"); string(got) != want {
		t.Errorf("%q", got)
	}
	if got := AppendCommand([]byte("x"), []byte("GET"), []byte("\r\n")); string(got) != "x"+want {
		t.Errorf("%q", got)
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*2\r\n:1\r\n$2\r\nab\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			if _, err := ReadReply(r, replyLimits); err != nil {
				return
			}
		}
	})
}

// What AppendQuoted writes is what SplitArgs reads.
func TestAppendQuoted(t *testing.T) {
	if got := AppendQuoted(nil, "a \"\\\n\r\t\b\a\x00\xff~"); string(got) != `"a \"\\\n\r\t\b\a\x00\xff~"` {
		t.Errorf("%s", got)
	}
	var all []byte
	for c := range 256 {
		all = append(all, byte(c))
	}
	if got, ok := SplitArgs(AppendQuoted(nil, all), nil); !ok || len(got) != 1 || !bytes.Equal(got[0], all) {
		t.Errorf("%q, %v", got, ok)
	}
}
