package json

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// kilobyte is a document of 1 KiB such as applications keep: short names, strings and numbers.
var kilobyte = func() string {
	member := `{"id":12345,"name":"somebody","tags":["a","b","c"],"price":99.98,"ok":true},`
	s := `{"items":[` + strings.Repeat(member, 12) + `null],"text":"`
	return s + strings.Repeat("x", 1024-len(s)-2) + `"}`
}()

func BenchmarkText(b *testing.B) {
	v, err := Parse(kilobyte, 100)
	require.NoError(b, err)
	enc := string(AppendCBOR(nil, &v))
	p, err := ParsePath("$.items[*].price")
	require.NoError(b, err)
	root := place{in: &box{vals: []Value{v}}}
	var buf []byte
	for name, f := range map[string]func() error{
		"Compact":     func() (err error) { buf, err = Compact(buf[:0], kilobyte, 100); return err },
		"Parse":       func() error { _, err := Parse(kilobyte, 100); return err },
		"Append":      func() error { buf = Append(buf[:0], &v); return nil },
		"ParseCBOR":   func() error { _, err := ParseCBOR(enc, 100); return err },
		"AppendCBOR":  func() error { buf = AppendCBOR(buf[:0], &v); return nil },
		"ParsePath":   func() error { _, err := ParsePath("$.items[*].price"); return err },
		"locate path": func() error { _, err := p.locate(root, NewBudget(1024)); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(kilobyte)))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, f())
			}
		})
	}
}
