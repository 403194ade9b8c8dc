// Package rdb reads and writes values the way Redis serializes them, in RDB files and in the payloads of DUMP:
//
//	u8 type · value · u16 version · u64 checksum
//
// where version is that of the RDB format and the checksum is the CRC-64 of all bytes before it, both little-endian.
// [Open] and [AppendFooter] handle version and checksum, [Decode] and the other Append functions type and value. [File]
// reads whole files.
//
// The package reads everything that Redis has written up to version 12 (Redis 7.4 to 8.4), and the files of Valkey up
// to version 80 (Valkey 9.0). Of the values of modules it reads JSON documents, t-digests and cuckoo filters. It reads
// the plain forms, which are sequences of strings and numbers, and the packed forms, in which a small value is one
// string with its own structure (listpack, ziplist, zipmap, intset). It writes plain forms only, which every Redis
// since 5.0 can read; the version tells when a stream needs a later one.
//
// The input is not trusted. Decode checks every length and count, stays within its memory limit, rejects duplicates
// where they are invalid, and returns an error for any other malformed input. The format is described at the constants
// and functions, and in redis/redis, src/rdb.h.
package rdb

import (
	"encoding/binary"
	"errors"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// MaxVersion is the latest readable version of the format.
const MaxVersion = 12

// The errors of this package; those of Decode wrap one of the last three.
var (
	// ErrFooter: the payload is too short for a footer, its version is unknown, or its checksum is wrong.
	ErrFooter = errors.New("rdb: wrong version or checksum")
	// ErrFormat: the bytes are not in the format of Redis.
	ErrFormat = raw.ErrFormat
	// ErrUnsupported: the value belongs to an unknown module.
	ErrUnsupported = errors.New("rdb: unsupported type of value")
	ErrTooLarge    = raw.ErrTooLarge
)

// footerLen is the length in bytes of version and checksum.
const footerLen = 2 + 8

// Open checks the footer of a payload and returns the type and value before it.
func Open(payload []byte) (body []byte, err error) {
	if len(payload) < footerLen {
		return nil, ErrFooter
	}
	sum := len(payload) - 8
	body = payload[: sum-2 : sum-2]
	if binary.LittleEndian.Uint16(payload[sum-2:]) > MaxVersion ||
		binary.LittleEndian.Uint64(payload[sum:]) != crc64.Update(0, payload[:sum]) {
		return nil, ErrFooter
	}
	return body, nil
}

// AppendFooter appends the footer to the body in dst.
func AppendFooter(dst []byte, version uint16) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, version)
	return binary.LittleEndian.AppendUint64(dst, crc64.Update(0, dst))
}

// The first byte of a body: the kind of the value, and its form.
const (
	typeString         = 0
	typeList           = 1 // length · strings
	typeSet            = 2 // length · strings
	typeZSet           = 3 // length · (string · score as text)
	typeHash           = 4 // length · (string · string)
	typeZSet2          = 5 // length · (string · score as f64)
	typeModule         = 6
	typeModule2        = 7
	typeHashZipmap     = 9  // one zipmap
	typeListZiplist    = 10 // one ziplist
	typeSetIntset      = 11 // one intset
	typeZSetZiplist    = 12 // one ziplist: member, score
	typeHashZiplist    = 13 // one ziplist: field, value
	typeQuicklist      = 14 // length · ziplists
	typeStream         = 15 // see stream.go
	typeHashListpack   = 16 // one listpack: field, value
	typeZSetListpack   = 17 // one listpack: member, score
	typeQuicklist2     = 18 // length · (1 · element or 2 · listpack)
	typeStream2        = 19
	typeSetListpack    = 20 // one listpack
	typeStream3        = 21
	typeHashTTLPre     = 22 // length · (expiry · field · value); never in a release of Redis
	typeHashTTLPackPre = 23 // one listpack: field, value, expiry; the same
	typeHashTTL        = 24 // ms first expiry · length · (expiry · field · value)
	typeHashTTLPack    = 25 // ms first expiry · one listpack: field, value, expiry

	// typeHashValkey stands for 22 in a file of Valkey: length · (field · value · i64 expiry, -1 = none). (No value
	// begins with it.)
	typeHashValkey = 128
)

// Kind is the Redis type of a value.
type Kind uint8

// The kinds.
const (
	String Kind = iota
	List
	Set
	ZSet
	Hash
	Stream
	JSON
	TDigest
	Cuckoo
	NoKind // the value of a module that is not known: see [Item.Skipped]
)

var kindNames = [...]string{"string", "list", "set", "zset", "hash", "stream", "ReJSON-RL", "TDIS-TYPE", "MBbloomCF",
	"none"}

// String returns the name that TYPE replies.
func (k Kind) String() string { return kindNames[k] }

// Value is a value that was read. Its slices may be parts of the bytes that it was read from.
type Value struct {
	Kind   Kind
	String []byte // of a String; the text of a JSON document
	// Elems are the elements of a List, in their order; the members of a Set or ZSet, all different; the fields and
	// values of a Hash in turn, the fields all different. There is at least one.
	Elems  [][]byte
	Scores []float64 // of the members of a ZSet; none is NaN
	// Expires are, for each field of a Hash, when it expires in milliseconds since the epoch, 0 = never. It is nil
	// when none does.
	Expires []uint64
	Stream  *StreamValue
	TDigest *TDigestValue
	Cuckoo  *CuckooValue
}

// StreamValue is a stream.
type StreamValue struct {
	Entries      []StreamEntry // their ids ascend
	Last         cf.StreamID   // the greatest id ever given, not smaller than that of the last entry
	MaxDeleted   cf.StreamID   // the greatest id of a deleted entry
	EntriesAdded uint64        // how many entries there ever were
	Groups       []StreamGroup // their names differ

	// What a reader notes while it reads: how many entries it has read, and the first and the last one.
	read          uint64
	first, latest cf.StreamID
}

// The values of modules.
type (
	TDigestValue = raw.TDigest
	CuckooValue  = raw.Cuckoo
)

// StreamEntry is an entry of a stream: its fields and values in turn.
type StreamEntry struct {
	ID     cf.StreamID
	Fields [][]byte
}

// UnknownReads is the EntriesRead of a group where it is not known.
const UnknownReads = -1

// StreamGroup is a consumer group.
type StreamGroup struct {
	Name        []byte
	Last        cf.StreamID      // of the entry that was delivered last
	EntriesRead int64            // how many were delivered, or UnknownReads
	Pending     []StreamPending  // by ascending ids
	Consumers   []StreamConsumer // their names differ
}

// StreamPending is an entry that was delivered and not acknowledged.
type StreamPending struct {
	ID         cf.StreamID
	Delivered  uint64 // when, in milliseconds since the epoch
	Deliveries uint64 // how often
	Consumer   int    // index of whom to
}

// StreamConsumer is a consumer of a group. The times are milliseconds since the epoch.
type StreamConsumer struct {
	Name   []byte
	Seen   uint64 // when it last asked for something
	Active uint64 // when it last got something; 0 = never
}
