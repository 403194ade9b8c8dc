package rocks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"
)

// TestCheckSST: a family takes files in the order of its comparator only.
func TestCheckSST(t *testing.T) {
	d := openTest(t)
	write := func(path string, c *grocksdb.Comparator) {
		t.Helper()
		o, env := grocksdb.NewDefaultOptions(), grocksdb.NewDefaultEnvOptions()
		defer o.Destroy()
		defer env.Destroy()
		if c != nil {
			o.SetComparator(c)
		}
		w := grocksdb.NewSSTFileWriter(env, o)
		defer w.Destroy()
		err := w.Open(path)
		if err == nil {
			err = w.Add([]byte("k"), []byte("v"))
		}
		if err == nil {
			err = w.Finish()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own, other := t.TempDir()+"/own.sst", t.TempDir()+"/other.sst"
	write(own, nil)
	write(other, grocksdb.NewComparator("backwards", func(a, b []byte) int { return bytes.Compare(b, a) }))
	for i, family := range d.Families() { // one of them has the comparator of scores
		if err := d.CheckSST(SSTFile{family, own}); err != nil {
			t.Errorf("family %d: %v", i, err)
		}
		if err := d.CheckSST(SSTFile{family, other}); err == nil || !strings.Contains(err.Error(), "backwards") {
			t.Errorf("family %d: %v", i, err)
		}
	}
}
