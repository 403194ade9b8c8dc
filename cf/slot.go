package cf

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// crcTables[0] is the usual table of CRC-16. crcTables[k] has the contribution of a byte that k bytes follow, so that
// eight bytes are one step.
var crcTables = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for k := 1; k < len(t); k++ {
		for i, crc := range t[k-1] {
			t[k][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()

// CRC16 is CRC-16/XMODEM (polynomial 0x1021, start 0), which Redis Cluster uses.
func CRC16(b []byte) uint16 {
	var crc uint16
	t := &crcTables
	for len(b) >= 8 {
		crc = t[7][b[0]^byte(crc>>8)] ^ t[6][b[1]^byte(crc)] ^ t[5][b[2]] ^ t[4][b[3]] ^
			t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
		b = b[8:]
	}
	for _, c := range b {
		crc = crc<<8 ^ t[0][byte(crc>>8)^c]
	}
	return crc
}

// HashTag returns the part of a key that decides its slot: the bytes between the first { and the next } if any bytes
// are between them, else the whole key.
func HashTag(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
		return key[open+1 : open+1+n]
	}
	return key
}

// Slot returns the cluster slot of a user key.
func Slot(key []byte) uint16 { return CRC16(HashTag(key)) & (NumSlots - 1) }

// SlotRange is the slots from First to Last, both included.
type SlotRange struct{ First, Last uint16 }

// Contains reports whether a slot is in the range.
func (r SlotRange) Contains(slot uint16) bool { return r.First <= slot && slot <= r.Last }

// All returns the slots in their order.
func (r SlotRange) All() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for slot := int(r.First); slot <= int(r.Last) && yield(uint16(slot)); slot++ {
		}
	}
}

// String returns "7" or "7-9".
func (r SlotRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return strconv.Itoa(int(r.First)) + "-" + strconv.Itoa(int(r.Last))
}

// ParseSlotRange reads "7" or "7-9".
func ParseSlotRange(s string) (r SlotRange, err error) {
	first, last, two := strings.Cut(strings.TrimSpace(s), "-")
	if !two {
		last = first
	}
	a, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return r, err
	}
	b, err := strconv.ParseUint(last, 10, 16)
	if err != nil {
		return r, err
	}
	if a > b || b >= NumSlots {
		return r, fmt.Errorf("slots %q are out of range", s)
	}
	return SlotRange{First: uint16(a), Last: uint16(b)}, nil
}
