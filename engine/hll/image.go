package hll

import (
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// In Redis a HyperLogLog is a string:
//
//	"HYLL" · u8 encoding · 3 bytes 0 · u64 last estimate, its top bit set when it is out of date · registers
//
// where the registers are dense (the segments of this package, concatenated) or sparse (runs of equal registers):
//
//	00nnnnnn            n+1 registers are 0
//	01nnnnnn and a byte n·256 + byte + 1 registers are 0
//	1vvvvvnn            n+1 registers are v+1
const (
	imageMagic  = "HYLL"
	imageHead   = 16
	imageDense  = 0
	imageSparse = 1
	imageLen    = imageHead + cf.HLLSegments*cf.HLLSegmentLen // of the dense form
	imageStale  = 1 << 7                                      // in the last byte of the head
)

// Export returns the string that Redis would store for a HyperLogLog.
func Export(tx *engine.Tx, key []byte) (image []byte, found bool, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return nil, false, err
	}
	image = make([]byte, imageLen)
	copy(image, imageMagic)
	image[imageHead-1] = imageStale
	err = each(tx, &rec, func(n int, s segment) { copy(image[imageHead+n*cf.HLLSegmentLen:], s) })
	return image, err == nil, err
}

// Import makes a HyperLogLog out of the string that one is in Redis, in a key that does not exist. ok is false, and
// nothing is done, when the string is no HyperLogLog.
func Import(tx *engine.Tx, key, image []byte) (ok bool, err error) {
	registers, err := Unpack(image)
	if err != nil {
		return false, nil
	}
	rec, err := load(tx, key)
	if err != nil {
		return false, err
	}
	put(tx, &rec, registers)
	return true, nil
}

// put writes a HyperLogLog with the given registers.
func put(tx *engine.Tx, rec *engine.Record, registers []byte) {
	tx.LogData(cf.LogHyperLogLog)
	for n := range cf.HLLSegments {
		s := registers[n*cf.HLLSegmentLen:][:cf.HLLSegmentLen]
		for _, c := range s {
			if c != 0 {
				tx.Put(cf.Default, subkey(tx, rec, n), s)
				break
			}
		}
	}
	save(tx, rec)
}

// ToString converts a HyperLogLog into the string that Redis would store. It keeps its expiry. A missing key stays
// missing.
func ToString(tx *engine.Tx, key []byte) error {
	old, err := tx.Load(key, cf.TypeHyperLogLog)
	if err != nil || !old.Exists {
		return err
	}
	image, _, err := Export(tx, key)
	if err != nil {
		return err
	}
	rec := tx.Fresh(key, cf.TypeString)
	rec.Expire = old.Expire
	tx.LogData(cf.LogString)
	tx.SaveAppend(&rec, image)
	return nil
}

// Unpack returns the dense registers of a string, [ErrString] or [ErrCorrupt] when it is no HyperLogLog.
func Unpack(image []byte) ([]byte, error) {
	if len(image) < imageHead || string(image[:len(imageMagic)]) != imageMagic {
		return nil, ErrString
	}
	rest := image[imageHead:]
	switch image[len(imageMagic)] {
	case imageDense:
		if len(image) == imageLen {
			return rest, nil
		}
	case imageSparse:
		if dense := unpackSparse(rest); dense != nil {
			return dense, nil
		}
		return nil, ErrCorrupt
	}
	return nil, ErrString
}

func eachIn(image []byte, f func(number int, s segment)) error {
	registers, err := Unpack(image)
	if err != nil {
		return err
	}
	for n := range cf.HLLSegments {
		f(n, registers[n*cf.HLLSegmentLen:][:cf.HLLSegmentLen])
	}
	return nil
}

func unpackSparse(b []byte) []byte {
	dense := make([]byte, imageLen-imageHead)
	at := 0
	for len(b) > 0 {
		n, v := 0, uint8(0)
		switch c := b[0]; {
		case c < 0x40:
			n = int(c) + 1
		case c < 0x80:
			if len(b) < 2 {
				return nil
			}
			n = int(binary.BigEndian.Uint16(b))&0x3fff + 1
			b = b[1:]
		default:
			n, v = int(c&3)+1, c>>2&31+1
		}
		b = b[1:]
		if n > Registers-at {
			return nil
		}
		for end := at + n; at < end; at++ {
			if v != 0 {
				segment(dense).set(at, v)
			}
		}
	}
	if at != Registers {
		return nil
	}
	return dense
}
