package peer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for in, want := range map[string]Reply{
		"+OK\r\n":                   {Kind: '+', Text: "OK"},
		"-ERR no\r\n":               {Kind: '-', Text: "ERR no"},
		":12\r\n":                   {Kind: ':', Text: "12"},
		"$-1\r\n":                   {Kind: '$', Null: true},
		"$2\r\nab\r\n":              {Kind: '$', Text: "ab"},
		"$5000\r\n" + long + "\r\n": {Kind: '$', Text: long[:keptText]},
		"*0\r\n":                    {Kind: '*'},
		"*2\r\n:1\r\n*1\r\n$-1\r\n": {Kind: '*', Items: []Reply{{Kind: ':', Text: "1"},
			{Kind: '*', Items: []Reply{{Kind: '$', Null: true}}}}},
		"$3\r\nab\r\n\r\n":                       {Kind: '!'},
		"$x\r\n":                                 {Kind: '!'},
		"$-2\r\n":                                {Kind: '!'},
		"?\r\n":                                  {Kind: '!'},
		"\n":                                     {Kind: '!'},
		"*100000\r\n":                            {Kind: '!'},
		strings.Repeat("*1\r\n", 10) + "+OK\r\n": {Kind: '!'},
		"+" + strings.Repeat("x", 10_000) + "\r\n": {Kind: '!'},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(in)), 0)
		if want.Kind == '!' {
			if !errors.Is(err, errReply) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%.40q: %v", in, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q: %+v, %v", in, got, err)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*2\r\n:1\r\n$2\r\nab\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			if _, err := readReply(r, 0); err != nil {
				return
			}
		}
	})
}
