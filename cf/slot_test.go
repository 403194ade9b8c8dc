package cf

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// CRC16 takes eight bytes at a time; the definition takes one bit.
func TestCRC16(t *testing.T) {
	if got := CRC16([]byte("123456789")); got != 0x31c3 { // the check value of CRC-16/XMODEM
		t.Errorf("%#x", got)
	}
	g := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		var want uint16
		for _, c := range b {
			want ^= uint16(c) << 8
			for range 8 {
				if want&0x8000 != 0 {
					want = want<<1 ^ 0x1021
				} else {
					want <<= 1
				}
			}
		}
		if got := CRC16(b); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

func TestSlotRange(t *testing.T) {
	r := SlotRange{3, 5}
	for slot, want := range map[uint16]bool{2: false, 3: true, 5: true, 6: false} {
		if r.Contains(slot) != want {
			t.Error(slot)
		}
	}
	if got := slices.Collect(r.All()); !slices.Equal(got, []uint16{3, 4, 5}) {
		t.Error(got)
	}
	for slot := range (SlotRange{3, 1<<16 - 1}).All() {
		if slot == 4 {
			break
		}
	}
	if got := slices.Collect((SlotRange{1<<16 - 1, 1<<16 - 1}).All()); len(got) != 1 {
		t.Error(got)
	}
	if got := r.String() + " " + (SlotRange{7, 7}).String(); got != "3-5 7" {
		t.Error(got)
	}
}

func BenchmarkSlot(b *testing.B) {
	for _, key := range []string{"key:000000123456", "user:{12345}:profile"} {
		b.Run(key, func(b *testing.B) {
			k := []byte(key)
			for b.Loop() {
				Slot(k)
			}
		})
	}
}

func TestParseSlotRange(t *testing.T) {
	for in, want := range map[string]SlotRange{"7": {7, 7}, "7-9": {7, 9}, " 0-16383\n": {0, 16383}} {
		if got, err := ParseSlotRange(in); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-", "7-", "9-7", "16384", "0-16384", "70000", "a", "1-2-3"} {
		if r, err := ParseSlotRange(in); err == nil {
			t.Errorf("%q: %v", in, r)
		}
	}
}
