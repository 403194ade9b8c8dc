package compaction

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// ExpiriesUnknown is the property of a file of subkeys that was made to be ingested.
const ExpiriesUnknown = "unknown"

// Expiries says how many bytes of a file's entries have expired at what time: the Bytes of a point have expired at its
// Second or some time before. The table-properties collector in engine/rocks writes the property; files that Kvrocks
// has written have none.
//
// In a family of subkeys only a compaction knows when the subkeys expire, because its filter reads the metadata
// records. A file that a flush has written in such a family has no expiries, and those of a file that was made to be
// ingested are [ExpiriesUnknown].
type Expiries []ExpiryPoint

// ExpiryPoint is one point of [Expiries].
type ExpiryPoint struct {
	Second int64 // since the epoch
	Bytes  uint64
}

// ParseExpiries parses the property: seconds since the epoch and bytes in decimal, "1700000000:4096,1700000060:512".
// Malformed points are left out.
func ParseExpiries(text []byte) Expiries {
	var all Expiries
	for point := range bytes.SplitSeq(text, []byte{','}) {
		second, size, ok := bytes.Cut(point, []byte{':'})
		if !ok {
			continue
		}
		s, err := strconv.ParseInt(string(second), 10, 64)
		n, err2 := strconv.ParseUint(string(size), 10, 62)
		if err == nil && err2 == nil {
			all = append(all, ExpiryPoint{s, n})
		}
	}
	return all
}

// Expired returns how many bytes have expired at a time in milliseconds since the epoch.
func (e Expiries) Expired(now int64) (bytes uint64) {
	for _, p := range e {
		if p.Second <= now/1000 {
			bytes += p.Bytes
		}
	}
	return bytes
}

// PickExpired returns the files of a family in which, by the rules of the compaction filter, at least percent of the
// bytes have expired; the file with the most expired bytes comes first. Compacting such a file alone, in its level,
// costs little more than what it frees.
func PickExpired(id cf.ID, files []FileProperties, percent int, now int64) []FileProperties {
	if id != cf.Metadata {
		now -= Grace
	}
	var due []FileProperties
	for _, f := range files {
		if n := f.Expiries.Expired(now); n > 0 && float64(n) >= float64(f.RawBytes)*float64(percent)/100 {
			due = append(due, f)
		}
	}
	slices.SortStableFunc(due, func(a, b FileProperties) int {
		return cmp.Compare(b.Expiries.Expired(now), a.Expiries.Expired(now))
	})
	return due
}

// PickFlushed returns the files in level 0 of a family of subkeys, if at least percent of their keys may be subkeys of
// collections that compactions of the metadata family have dropped. Flushed files do not say how many of their bytes
// have expired, see [Expiries].
func PickFlushed(files []FileProperties, percent int, dropped uint64) []FileProperties {
	return pickUnknown(files, percent, dropped, func(f *FileProperties) bool { return f.Level == 0 })
}

// PickIngested is [PickFlushed] for files that were ingested into deeper levels and not compacted since.
func PickIngested(files []FileProperties, percent int, dropped uint64) []FileProperties {
	return pickUnknown(files, percent, dropped, func(f *FileProperties) bool { return f.Level > 0 && f.Ingested })
}

func pickUnknown(files []FileProperties, percent int, dropped uint64, of func(*FileProperties) bool) (
	picked []FileProperties) {
	var total uint64
	for i := range files {
		if f := &files[i]; of(f) {
			picked = append(picked, *f)
			total += f.Total
		}
	}
	if dropped == 0 || float64(dropped) < float64(total)*float64(percent)/100 {
		return nil
	}
	return picked
}
