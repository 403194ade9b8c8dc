package migration

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
	for in, want := range map[string]reply{
		"+OK\r\n":                   {kind: '+', text: "OK"},
		"-ERR no\r\n":               {kind: '-', text: "ERR no"},
		":12\r\n":                   {kind: ':', text: "12"},
		"$-1\r\n":                   {kind: '$', null: true},
		"$2\r\nab\r\n":              {kind: '$', text: "ab"},
		"$5000\r\n" + long + "\r\n": {kind: '$', text: long[:keptText]},
		"*0\r\n":                    {kind: '*'},
		"*2\r\n:1\r\n*1\r\n$-1\r\n": {kind: '*', items: []reply{{kind: ':', text: "1"},
			{kind: '*', items: []reply{{kind: '$', null: true}}}}},
		"$3\r\nab\r\n\r\n":                       {kind: '!'},
		"$x\r\n":                                 {kind: '!'},
		"$-2\r\n":                                {kind: '!'},
		"?\r\n":                                  {kind: '!'},
		"\n":                                     {kind: '!'},
		"*100000\r\n":                            {kind: '!'},
		strings.Repeat("*1\r\n", 10) + "+OK\r\n": {kind: '!'},
		"+" + strings.Repeat("x", 10_000) + "\r\n": {kind: '!'},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(in)), 0)
		if want.kind == '!' {
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
