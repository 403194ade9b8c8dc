package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// walk returns a random key of the collection at which reading may start. It reads the first and the last subkey of a
// range, picks a value for the first byte in which they differ, narrows the range to that value, and repeats. The
// probability of a value is proportional to RocksDB's estimate of the size of the keys with it.
//
// RocksDB's estimate has the resolution of a block: the walk ends where one block ends and the next one begins. So it
// continues from there by a random number of subkeys, which may exceed several blocks, and from the last subkey to the
// first. Then all subkeys are found about equally often, as far as they are equally long.
func (tx *Tx) walk(id cf.ID, prefix []byte) ([]byte, error) {
	lower := bytes.Clone(prefix)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	edge := func(reverse bool) ([]byte, error) {
		it := tx.Iter(id, IterOptions{Lower: lower, Upper: upper, Reverse: reverse, KeysOnly: true, Limit: 1,
			MaxSkip: walkSkip})
		defer it.Close()
		if it.Next() {
			return bytes.Clone(it.Key()), nil
		}
		if err := it.Err(); err != nil && !incomplete(err) {
			return nil, err
		}
		return nil, nil
	}
	at := lower
	for range walkDepth {
		first, err := edge(false)
		if err != nil {
			return nil, err
		}
		if first == nil {
			break // empty, or tombstones: reading on from the last place finds something
		}
		at = first
		last, err := edge(true)
		if err != nil {
			return nil, err
		}
		if last == nil || bytes.Equal(first, last) {
			break
		}
		n := len(prefix)
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		a := 0 // treat the key that ends here as if it went on with a zero byte
		if n < len(first) {
			a = int(first[n])
		}
		head := first[:n:n]
		pick, ok := tx.pickByte(id, head, upper, a, int(last[n]))
		if !ok {
			break
		}
		lower = append(head, byte(pick))
		if up, ok := cf.AppendSuccessor(nil, lower); ok {
			upper = up
		}
		at = lower
	}
	return tx.goOn(id, prefix, at)
}

// pickByte picks one of the bytes from a to b that may follow head, weighted by the size of the keys that begin so;
// upper is above all these keys. It fails when their total size is below the resolution of RocksDB's estimate.
func (tx *Tx) pickByte(id cf.ID, head, upper []byte, a, b int) (pick int, ok bool) {
	const parts = 4
	for ok = true; a < b && ok; {
		at := append(make([]uint16, 0, parts+1), uint16(a))
		for i := 1; i <= parts; i++ {
			if v := uint16(a + (b-a+1)*i/parts); v > at[len(at)-1] {
				at = append(at, v)
			}
		}
		sizes := make([]uint64, len(at)-1)
		var total uint64
		if tx.db.rocks.ApproximateParts(tx.db.fam[id], head, upper, at, sizes) {
			for _, n := range sizes {
				total += n
			}
		}
		if ok = total > 0; ok {
			r := rand.Uint64N(total)
			i := slices.IndexFunc(sizes, func(n uint64) bool {
				if r < n {
					return true
				}
				r -= n
				return false
			})
			a, b = int(at[i]), int(at[i+1])-1
		}
	}
	return a, ok
}

// goOn returns the subkey that is a random number of subkeys, up to walkSpan, behind a place. The last subkey is
// followed by the first.
func (tx *Tx) goOn(id cf.ID, prefix, at []byte) ([]byte, error) {
	n := rand.Uint64N(walkSpan)
	for range 2 {
		it := tx.Iter(id, IterOptions{Prefix: prefix, Lower: at, KeysOnly: true, Limit: walkSpan, MaxSkip: walkSkip})
		n -= it.Skip(n)
		if n == 0 && it.Next() {
			at = append(bytes.Clone(prefix), it.Key()...)
			it.Close()
			return at, nil
		}
		err := it.Err()
		it.Close()
		if err != nil {
			if incomplete(err) { // too many tombstones: start from here
				err = nil
			}
			return at, err
		}
		at = prefix
	}
	return at, nil
}
