// Package cf is the on-disk format: the column families, and the meaning of the bytes of their keys and values. It is
// the format of Apache Kvrocks 2.10, byte for byte: a Kvrocks data directory opens in place, and ldb and Kvrocks read
// what we write.
//
// Everything here is a pure function on bytes: no I/O, no clock, no locks. Decoders never panic on bytes from
// outside; they return an error that wraps [ErrCorrupt].
//
// All fixed-width integers in keys and values are big-endian.
package cf

// ID is the numeric id of a column family as it is written in WAL batches. The ids follow from the order in
// which Kvrocks creates the families, so the order is part of the format.
type ID uint32

// The column families, in creation order.
const (
	Default   ID = iota // subkeys of hash, set, zset (member to score), list, bitmap, sortedint, bloom, HLL
	Metadata            // one record a user key; the whole value of strings and JSON documents
	ZSetScore           // the score index of sorted sets
	PubSub              // transient publish messages, travelling in the WAL
	Propagate           // namespace tokens, scripts, functions, replication id
	Stream              // stream entries, groups, consumers, pending entries
	Search              // index definitions and index data
	NumFamilies
)

// Index is the id of the family that holds the labels of time series. Kvrocks 2.10 cannot open a database with this
// family, so only a database that needs it has it: NumFamilies does not count it.
const Index = NumFamilies

// IndexName is the RocksDB name of Index.
const IndexName = "index"

// Names are the RocksDB names of the column families, indexed by [ID].
var Names = [NumFamilies]string{"default", "metadata", "zset_score", "pubsub", "propagate", "stream", "search"}

// String returns the RocksDB name of the family.
func (id ID) String() string {
	switch {
	case id < NumFamilies:
		return Names[id]
	case id == Index:
		return IndexName
	}
	return "unknown"
}
