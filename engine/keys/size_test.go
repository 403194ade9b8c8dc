package keys_test

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
)

func TestSizeAndDiskUsage(t *testing.T) {
	db := enginetest.Open(t)
	for _, name := range everyType(t, db) {
		update(t, db, name, func(tx *engine.Tx) error {
			all, exists, err := keys.Size(tx, []byte(name), 0)
			if err != nil || !exists || all < uint64(len(name)) {
				t.Errorf("%s: size %d, %v, %v", name, all, exists, err)
			}
			if some, _, err := keys.Size(tx, []byte(name), 1); err != nil || some == 0 || some > all*3 {
				t.Errorf("%s: from one sample %d, really %d, %v", name, some, all, err)
			}
			if disk, exists, err := keys.DiskUsage(tx, []byte(name)); err != nil || !exists || disk == 0 {
				t.Errorf("%s: disk usage %d, %v, %v", name, disk, exists, err)
			}
			return nil
		})
	}
	var pairs [][]byte
	for i := range 2000 {
		pairs = append(pairs, fmt.Appendf(nil, "field%04d", i), []byte("0123456789"))
	}
	update(t, db, "h", func(tx *engine.Tx) error {
		_, err := hash.Set(tx, []byte("h"), pairs)
		return err
	})
	update(t, db, "h", func(tx *engine.Tx) error {
		all, _, _ := keys.Size(tx, []byte("h"), 0)
		some, _, _ := keys.Size(tx, []byte("h"), 5)
		if want := uint64(2000 * (9 + 10)); all < want || all > want*4 || some < all*9/10 || some > all*11/10 {
			t.Errorf("%d bytes, from 5 samples %d", all, some)
		}
		return nil
	})
	update(t, db, "none", func(tx *engine.Tx) error {
		if _, exists, err := keys.Size(tx, []byte("none"), 5); exists || err != nil {
			t.Error(exists, err)
		}
		if _, exists, err := keys.DiskUsage(tx, []byte("none")); exists || err != nil {
			t.Error(exists, err)
		}
		return nil
	})
}
