package cf

import "encoding/binary"

// CuckooMeta is the tail of a cuckoo filter's metadata, 27 bytes, as Apache Kvrocks writes it after 2.16:
//
//	u16 filters · u16 expansion · u64 base capacity · u8 bucket size · u16 max iterations · u64 deleted · u32 page size
//
// The size of the record is the number of items. Filter k is made for base capacity × expansion^k items.
type CuckooMeta struct {
	Filters       uint16
	Expansion     uint16 // a power of two, or 0: the chain does not grow
	BaseCapacity  uint64 // items in the first filter
	BucketSize    uint8  // fingerprints in a bucket
	MaxIterations uint16 // how many fingerprints an insertion may move
	Deleted       uint64 // items that were deleted
	PageSize      uint32 // max bytes of a page
}

const cuckooTail = 27

// Append appends the encoded tail.
func (m *CuckooMeta) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, m.Filters)
	dst = binary.BigEndian.AppendUint16(dst, m.Expansion)
	dst = binary.BigEndian.AppendUint64(dst, m.BaseCapacity)
	dst = binary.BigEndian.AppendUint16(append(dst, m.BucketSize), m.MaxIterations)
	dst = binary.BigEndian.AppendUint64(dst, m.Deleted)
	return binary.BigEndian.AppendUint32(dst, m.PageSize)
}

// DecodeCuckooMeta decodes the type-specific fields of a cuckoo filter. Fields that no filter can have are an error.
func DecodeCuckooMeta(tail []byte) (m CuckooMeta, err error) {
	if len(tail) < cuckooTail {
		return m, corrupt("cuckoo filter metadata tail of %d bytes", len(tail))
	}
	m.Filters = binary.BigEndian.Uint16(tail)
	m.Expansion = binary.BigEndian.Uint16(tail[2:])
	m.BaseCapacity = binary.BigEndian.Uint64(tail[4:])
	m.BucketSize = tail[12]
	m.MaxIterations = binary.BigEndian.Uint16(tail[13:])
	m.Deleted = binary.BigEndian.Uint64(tail[15:])
	m.PageSize = binary.BigEndian.Uint32(tail[23:])
	if m.Filters == 0 || m.BaseCapacity == 0 || m.BucketSize == 0 || m.MaxIterations == 0 ||
		m.PageSize < uint32(m.BucketSize) {
		return m, corrupt("cuckoo filter metadata %+v", m)
	}
	if c := m; c.FilterBuckets(int(m.Filters)-1) == 0 {
		return m, corrupt("cuckoo filter %d of %+v is too large", m.Filters-1, m)
	}
	return m, nil
}

// CuckooMaxBuckets is the max number of buckets of a filter.
const CuckooMaxBuckets = 1 << 31

// CuckooBuckets returns how many buckets of a size a filter for some items has: the next power of two of what they take
// if 95.5% of it is filled. It returns 0 for more than [CuckooMaxBuckets].
func CuckooBuckets(capacity uint64, size uint8) uint64 {
	for n := uint64(1); n <= CuckooMaxBuckets; n <<= 1 {
		if capacity <= n*uint64(size)*955/1000 {
			return n
		}
	}
	return 0
}

// FilterBuckets returns the number of buckets of the k-th filter of the chain, 0 if it would be too large.
func (m *CuckooMeta) FilterBuckets(k int) uint64 {
	capacity := m.BaseCapacity
	if m.Expansion > 1 {
		for ; k > 0 && capacity <= CuckooMaxBuckets*255; k-- { // a larger one has no filter, and must not overflow
			capacity *= uint64(m.Expansion)
		}
	}
	return CuckooBuckets(capacity, m.BucketSize)
}

// PageBuckets returns how many buckets a page has; the last page of a filter may have fewer.
func (m *CuckooMeta) PageBuckets() uint64 { return uint64(m.PageSize / uint32(m.BucketSize)) }

// PageLen returns the length in bytes of a page of a filter with so many buckets; 0 beyond its end.
func (m *CuckooMeta) PageLen(buckets uint64, page uint32) int {
	first := uint64(page) * m.PageBuckets()
	if first >= buckets {
		return 0
	}
	return int(min(m.PageBuckets(), buckets-first)) * int(m.BucketSize)
}

// AppendCuckooSub appends the subkey of a page of a filter. Its value is the buckets of the page, each with bucket size
// fingerprints of one byte; 0 = free. A page without fingerprints may have no record.
func AppendCuckooSub(dst []byte, filter uint16, page uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, filter), page)
}

// ParseCuckooSub returns the filter and the page that a subkey belongs to.
func ParseCuckooSub(sub []byte) (filter uint16, page uint32, err error) {
	if len(sub) != 6 {
		return 0, 0, corrupt("cuckoo filter page of %d bytes", len(sub))
	}
	return binary.BigEndian.Uint16(sub), binary.BigEndian.Uint32(sub[2:]), nil
}
