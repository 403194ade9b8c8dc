package compaction

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
)

// EntryType is the kind of an entry of a file that is being written, with the numbers of RocksDB's EntryType.
type EntryType uint8

// The entry types.
const (
	EntryPut EntryType = iota
	EntryDelete
	EntrySingleDelete
	EntryMerge
	EntryRangeDelete
	EntryBlobIndex
	EntryDeleteWithTimestamp
	EntryWideColumns
	EntryOther
)

// The names of the properties that are written into a file. The counters are in decimal, the keys are unencoded.
const (
	PropTotalKeys   = "total_keys"
	PropDeletedKeys = "deleted_keys"
	PropStartKey    = "start_key"
	PropStopKey     = "stop_key"
)

// DeletionTrigger is the share of deleted keys above which a new file is marked for compaction.
const DeletionTrigger = 0.3

// minMetadata is the length of the shortest metadata record that Add decodes.
const minMetadata = 5

// Collector computes, while a file is written, the share of its keys that are deleted or dead. This is the definition.
// RocksDB calls a native twin, which the tests compare with it.
//
// A metadata record stands for its subkeys too, which are in other families. It counts as 1 + size keys, all of them
// deleted when the record is expired or an emptied collection.
type Collector struct {
	IsMetadata bool  // the file is of the metadata family
	Now        int64 // milliseconds since the epoch

	total, deleted uint64
	start, stop    []byte
}

// Add counts one entry. Entries must come in the order of their keys. Range deletes do not count as deleted keys,
// because the number of keys that they delete is unknown.
func (c *Collector) Add(t EntryType, key, value []byte) {
	c.total++
	if len(c.start) == 0 {
		c.start = append(c.start, key...)
	}
	c.stop = append(c.stop[:0], key...)
	switch {
	case t == EntryDelete:
		c.deleted++
	case t == EntryPut && c.IsMetadata && len(value) >= minMetadata:
		m, _, err := cf.DecodeMeta(value)
		if err != nil {
			return
		}
		c.total += m.Size
		if !m.Live(c.Now) {
			c.deleted += m.Size + 1
		}
	}
}

// NeedCompact reports whether the file should be compacted soon.
func (c *Collector) NeedCompact() bool {
	return c.total > 0 && float64(c.deleted)/float64(c.total) > DeletionTrigger
}

// Finish returns the properties of the file.
func (c *Collector) Finish() map[string]string {
	return map[string]string{
		PropTotalKeys:   strconv.FormatUint(c.total, 10),
		PropDeletedKeys: strconv.FormatUint(c.deleted, 10),
		PropStartKey:    string(c.start),
		PropStopKey:     string(c.stop),
	}
}
