// Package batch encodes and decodes RocksDB's write batch, the unit in which writes reach the WAL and replicas. It is
// pure Go without I/O: it builds batches as bytes for RocksDB.
//
// The format is that of RocksDB 7.8 (db/write_batch.cc and db/dbformat.h), unchanged since 4.8 for the records that are
// written here:
//
//	u64 sequence · u32 count                          header, 12 bytes, little-endian
//	u8 tag · [varint32 family] · operands ...         records, until the end
//
// Operands are length-prefixed: varint32 length · bytes. A tag either has a family field or implies the default family.
// Count is the number of records that take a sequence number: all but log data and the markers of two-phase commit.
package batch

import "errors"

// HeaderLen is the length of a batch's header in bytes.
const HeaderLen = 12

// Errors of [Reader]. A returned error wraps one of them and names the offset.
var (
	ErrHeader    = errors.New("write batch is shorter than its header")
	ErrTruncated = errors.New("write batch record runs over the end")
	ErrVarint    = errors.New("write batch has a malformed length")
	ErrTag       = errors.New("write batch has an unknown record tag")
	ErrCount     = errors.New("write batch holds another number of records than its header says")
)

// The tags of records, ValueType in RocksDB.
const (
	tagDelete           = 0x00
	tagPut              = 0x01
	tagMerge            = 0x02
	tagLogData          = 0x03
	tagCFDelete         = 0x04
	tagCFPut            = 0x05
	tagCFMerge          = 0x06
	tagSingleDelete     = 0x07
	tagCFSingleDelete   = 0x08
	tagBeginPrepare     = 0x09
	tagEndPrepare       = 0x0a
	tagCommit           = 0x0b
	tagRollback         = 0x0c
	tagNoop             = 0x0d
	tagCFDeleteRange    = 0x0e
	tagDeleteRange      = 0x0f
	tagCFBlobIndex      = 0x10
	tagBlobIndex        = 0x11
	tagBeginPersisted   = 0x12
	tagBeginUnprepare   = 0x13
	tagCommitTimestamp  = 0x15
	tagWideColumns      = 0x16
	tagCFWideColumns    = 0x17
	maxVarint32Len      = 5
	lastVarint32ByteMax = 0x0f
)
