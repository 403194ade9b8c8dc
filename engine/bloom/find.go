package bloom

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// lookup is an item that find looks for.
type lookup struct {
	hash  uint64
	found bool
	block [blockLen]byte // its block in the newest filter
}

func lookups(l []lookup, items [][]byte) []lookup {
	if cap(l) < len(items) {
		l = make([]lookup, 0, len(items))
	}
	for _, item := range items {
		l = append(l, lookup{hash: hash(item)})
	}
	return l
}

// wholeMax is the max length in bytes of filters that are read whole, several in one batch. Of longer filters only the
// needed blocks are read.
const wholeMax = 4 << 10

// wholeBatch is how many bytes of whole filters one batch reads.
const wholeBatch = 256 << 10

// find looks the items up in all filters, from the newest, which holds half of all items or more, to the oldest, until
// all are found. It returns the length of the newest filter.
func (c *chain) find(l []lookup) (newest int, err error) {
	missing := len(l)
	for i := int(c.meta.Filters) - 1; i >= 0 && missing > 0; {
		if n := c.lenOf(i); n > wholeMax {
			if n, err = c.findParts(l, i, n, &missing); err != nil {
				return 0, err
			}
			if i == int(c.meta.Filters)-1 {
				newest = n
			}
			i--
			continue
		}
		n := min(i+1, wholeBatch/c.lenOf(i)) // older filters are not longer
		keys := c.tx.Keys()
		for j := range n {
			keys.Add(c.key(i - j))
		}
		values, err := c.tx.MultiGet(cf.Default, keys)
		if err != nil {
			return 0, err
		}
		for j, v := range values {
			if err := c.check(i-j, v); err != nil {
				return 0, err
			}
			last := i-j == int(c.meta.Filters)-1
			if last {
				newest = len(v)
			}
			findIn(l, v, last, &missing)
		}
		i -= n
	}
	return newest, nil
}

// check returns an error for a filter that is missing or has an impossible length.
func (c *chain) check(i int, value []byte) error {
	if value == nil {
		return c.corrupt(fmt.Errorf("%w: filter %d is missing", cf.ErrCorrupt, i))
	}
	return c.checkLen(i, len(value))
}

func (c *chain) checkLen(i, n int) error {
	if !validLen(n) {
		return c.corrupt(fmt.Errorf("%w: filter %d of %d bytes", cf.ErrCorrupt, i, n))
	}
	return nil
}

// findIn looks the items up in the bytes of a whole filter.
func findIn(l []lookup, filter []byte, newest bool, missing *int) {
	for i := range l {
		if l[i].found {
			continue
		}
		at := blockAt(l[i].hash, len(filter))
		block := filter[at : at+blockLen]
		if newest {
			copy(l[i].block[:], block)
		}
		if has(block, l[i].hash) {
			l[i].found = true
			*missing--
		}
	}
}

// findParts looks the items up in a filter whose expected length is n, and returns its real length. A filter of another
// length, made by another implementation, is read a second time.
func (c *chain) findParts(l []lookup, filter, n int, missing *int) (int, error) {
	newest := filter == int(c.meta.Filters)-1
	var offBuf [4]uint32
	var outBuf [4 * blockLen]byte
	offs, out := offBuf[:0], outBuf[:]
	if *missing*blockLen > len(out) {
		out = make([]byte, *missing*blockLen)
	}
	out = out[:*missing*blockLen]
	for try := 0; ; try++ {
		offs = offs[:0]
		for i := range l {
			if !l[i].found {
				offs = append(offs, blockAt(l[i].hash, n))
			}
		}
		size, found, err := c.tx.GetSlices(cf.Default, c.key(filter), offs, out)
		if err != nil {
			return 0, err
		}
		if !found {
			return 0, c.check(filter, nil)
		}
		if err := c.checkLen(filter, size); err != nil {
			return 0, err
		}
		if size == n {
			break
		}
		if try == 1 { // impossible: the key is locked
			return 0, c.corrupt(fmt.Errorf("%w: filter %d changes its length", cf.ErrCorrupt, filter))
		}
		n = size
	}
	for i := range l {
		if l[i].found {
			continue
		}
		block := out[:blockLen]
		out = out[blockLen:]
		if newest {
			copy(l[i].block[:], block)
		}
		if has(block, l[i].hash) {
			l[i].found = true
			*missing--
		}
	}
	return n, nil
}
