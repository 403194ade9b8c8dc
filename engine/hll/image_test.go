package hll

import (
	"bytes"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// sparse is a HyperLogLog in Redis's sparse form, of the operations after the head.
func sparse(ops ...byte) []byte {
	return append(append([]byte("HYLL\x01"), make([]byte, imageHead-5)...), ops...)
}

func TestImage(t *testing.T) {
	db := enginetest.Open(t)
	from, to := []byte("from"), []byte("to")
	for _, n := range []int{0, 1, 100, 20000} {
		var image []byte
		var want uint64
		update(t, db, [][]byte{from}, func(tx *engine.Tx) error {
			if _, err := Add(tx, from, numbered(n)); err != nil {
				return err
			}
			var err error
			if image, _, err = Export(tx, from); err != nil {
				return err
			}
			want, err = Count(tx, from)
			return err
		})
		update(t, db, [][]byte{to}, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny(to)
			if err != nil {
				return err
			}
			if rec.Exists {
				tx.Drop(&rec)
			}
			if ok, err := Import(tx, to, image); !ok || err != nil {
				t.Fatalf("%d elements: %v %v", n, ok, err)
			}
			got, err := Count(tx, to)
			if got != want {
				t.Errorf("%d elements: %d, want %d", n, got, want)
			}
			return err
		})
		view(t, db, [][]byte{to}, func(tx *engine.Tx) error {
			again, _, err := Export(tx, to)
			if !bytes.Equal(again, image) {
				t.Errorf("%d elements: the copy differs", n)
			}
			return err
		})
	}
	view(t, db, [][]byte{[]byte("missing")}, func(tx *engine.Tx) error {
		image, found, err := Export(tx, []byte("missing"))
		if found || image != nil {
			t.Error("a missing key is there")
		}
		return err
	})
}

func TestUnpack(t *testing.T) {
	dense := append(append([]byte("HYLL"), make([]byte, imageHead-4)...), make([]byte, imageLen-imageHead)...)
	for _, tt := range []struct {
		name  string
		image []byte
		ok    bool
		set   map[int]uint8 // registers that are not 0
	}{
		{"dense", dense, true, nil},
		{"dense, short", dense[:len(dense)-1], false, nil},
		{"dense, long", append(dense[:len(dense):len(dense)], 0), false, nil},
		{"sparse, all zeros", sparse(0x7f, 0xff), true, nil},
		{"sparse, values", sparse(0x80|4<<2|1, 0x00, 0x40, 0x00, 0x80|31<<2, 0x7f, 0xfa), true,
			map[int]uint8{0: 5, 1: 5, 4: 32}},
		{"sparse, one register too few", sparse(0x7f, 0xfe), false, nil},
		{"sparse, one register too many", sparse(0x7f, 0xff, 0x00), false, nil},
		{"sparse, half an operation", sparse(0x7f), false, nil},
		{"sparse, nothing", sparse(), false, nil},
		{"unknown form", append([]byte("HYLL\x02"), dense[5:]...), false, nil},
		{"other", append([]byte("HYLX"), dense[4:]...), false, nil},
		{"short", []byte("HYLL"), false, nil},
		{"empty", nil, false, nil},
	} {
		registers, _ := Unpack(tt.image)
		if (registers != nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, registers != nil)
		}
		for i := range Registers {
			if registers == nil {
				break
			}
			n, at := i/1024, i%1024
			if got := segment(registers[n*768:][:768]).get(at); got != tt.set[i] {
				t.Errorf("%s: register %d is %d, want %d", tt.name, i, got, tt.set[i])
			}
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(sparse(0x7f, 0xff))
	f.Add(sparse(0x80|4<<2|1, 0x00, 0x40, 0x00, 0x80|31<<2, 0x7f, 0xfa))
	f.Fuzz(func(t *testing.T, image []byte) {
		if r, _ := Unpack(image); r != nil && len(r) != imageLen-imageHead {
			t.Fatalf("%d bytes", len(r))
		}
	})
}
