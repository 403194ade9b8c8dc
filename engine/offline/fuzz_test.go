package offline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// FuzzDescribe describes records of any bytes.
func FuzzDescribe(f *testing.F) {
	nsKey := cf.AppendNSKey(nil, "ns", []byte("key"), false)
	for t := cf.TypeString; t <= cf.TypeCuckooFilter; t++ {
		m := cf.Meta{Type: t, Version: 7, Size: 1}
		f.Add(m.Append(nil), []byte("sub"), []byte("value"), byte(t))
		f.Add(append(m.Append(nil), make([]byte, 96)...), make([]byte, 16), make([]byte, 48), byte(t))
	}
	f.Fuzz(func(t *testing.T, raw, sub, value []byte, family byte) {
		d := &describer{dir: "/db", nsKey: nsKey, max: 10, found: len(raw) > 0}
		if d.found {
			d.meta, d.tail, d.err = cf.DecodeMeta(raw)
			d.metadata(raw)
		}
		prefix := cf.AppendSubkeyPrefix(nil, nsKey, false, 7)
		id := []cf.ID{cf.Default, cf.ZSetScore, cf.Stream}[family%3]
		r := d.subkey(id, append(prefix, sub...), value, len(prefix)-8)
		if len(r.Fields) == 0 || r.Ldb == "" {
			t.Errorf("%+v", r)
		}
	})
}

// FuzzFiles reads blob files and footers of any bytes.
func FuzzFiles(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, footerLen))
	f.Add(append([]byte{0xf7, 0x8e, 0x24, 0, 1}, make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		verifyFooter(path)
		if n, err := verifyBlobs(path); err == nil && n != int64(len(data)) {
			t.Errorf("%d of %d bytes", n, len(data))
		}
	})
}
