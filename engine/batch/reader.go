package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// Kind is the kind of a record.
type Kind uint8

// The kinds of records, with the fields of Record that they use.
const (
	Put          Kind = iota // Key, Value
	Delete                   // Key
	SingleDelete             // Key
	DeleteRange              // Key = first key, Value = the key after the last
	Merge                    // Key, Value = merge operand
	LogData                  // Value = the blob
	BlobIndex                // Key, Value = index into a blob file
	WideColumns              // Key, Value = encoded columns
	Noop                     // a placeholder; also a begin-prepare marker before it is filled in
	BeginPrepare             // start of a two-phase commit's prepared section
	EndPrepare               // Value = transaction id
	Commit                   // Value = transaction id, Key = commit timestamp if present
	Rollback                 // Value = transaction id
)

var kindNames = [...]string{"put", "delete", "single delete", "delete range", "merge", "log data", "blob index",
	"wide columns", "noop", "begin prepare", "end prepare", "commit", "rollback"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Counted reports whether a record of this kind takes a sequence number.
func (k Kind) Counted() bool { return k <= WideColumns && k != LogData }

// Record is one record of a batch. Key and Value alias the batch.
type Record struct {
	Kind        Kind
	Family      cf.ID // of counted kinds; may be unknown to this version
	Key         []byte
	Value       []byte
	Offset      int // offset of the record in the batch
	ValueOffset int // offset of Value in the batch; the end of the record if it has no value
}

// form is the layout of a tag's operands.
type form struct {
	kind   Kind
	known  bool
	family bool
	key    bool
	value  bool
}

var forms = [...]form{
	tagDelete:          {Delete, true, false, true, false},
	tagPut:             {Put, true, false, true, true},
	tagMerge:           {Merge, true, false, true, true},
	tagLogData:         {LogData, true, false, false, true},
	tagCFDelete:        {Delete, true, true, true, false},
	tagCFPut:           {Put, true, true, true, true},
	tagCFMerge:         {Merge, true, true, true, true},
	tagSingleDelete:    {SingleDelete, true, false, true, false},
	tagCFSingleDelete:  {SingleDelete, true, true, true, false},
	tagBeginPrepare:    {BeginPrepare, true, false, false, false},
	tagEndPrepare:      {EndPrepare, true, false, false, true},
	tagCommit:          {Commit, true, false, false, true},
	tagRollback:        {Rollback, true, false, false, true},
	tagNoop:            {Noop, true, false, false, false},
	tagCFDeleteRange:   {DeleteRange, true, true, true, true},
	tagDeleteRange:     {DeleteRange, true, false, true, true},
	tagCFBlobIndex:     {BlobIndex, true, true, true, true},
	tagBlobIndex:       {BlobIndex, true, false, true, true},
	tagBeginPersisted:  {BeginPrepare, true, false, false, false},
	tagBeginUnprepare:  {BeginPrepare, true, false, false, false},
	tagCommitTimestamp: {Commit, true, false, true, true},
	tagWideColumns:     {WideColumns, true, false, true, true},
	tagCFWideColumns:   {WideColumns, true, true, true, true},
}

// Reader decodes a batch record by record. It does not panic on any input.
type Reader struct {
	rep []byte
	pos int
	n   uint32 // counted records returned so far
	err error
	// part: the reader has not begun with the first record.
	part bool
}

// NewReader returns a reader of a batch, or [ErrHeader] if the header is incomplete. The reader and its records alias
// rep.
func NewReader(rep []byte) (*Reader, error) {
	r := new(Reader)
	if err := r.Reset(rep); err != nil {
		return nil, err
	}
	return r, nil
}

// Reset makes the reader read another batch. It returns the error of [NewReader].
func (r *Reader) Reset(rep []byte) error {
	if len(rep) < HeaderLen {
		*r = Reader{}
		return fmt.Errorf("%w: %d bytes", ErrHeader, len(rep))
	}
	*r = Reader{rep: rep, pos: HeaderLen}
	return nil
}

// NewReaderAt returns a reader of the records of a batch from an offset on, at which a record begins. The number of
// records is not checked.
func NewReaderAt(rep []byte, offset int) *Reader { return &Reader{rep: rep, pos: offset, part: true} }

// Sequence returns the sequence number of the first counted record.
func (r *Reader) Sequence() uint64 {
	if len(r.rep) < HeaderLen {
		return 0
	}
	return binary.LittleEndian.Uint64(r.rep)
}

// Count returns the number of counted records according to the header.
func (r *Reader) Count() uint32 {
	if len(r.rep) < HeaderLen {
		return 0
	}
	return binary.LittleEndian.Uint32(r.rep[8:])
}

// Next returns the next record; false at the end and at the first error, which [Reader.Err] returns.
func (r *Reader) Next() (Record, bool) {
	if r.err != nil {
		return Record{}, false
	}
	if r.pos >= len(r.rep) {
		if len(r.rep) >= HeaderLen && !r.part && r.n != r.Count() {
			r.err = fmt.Errorf("%w: %d instead of %d", ErrCount, r.n, r.Count())
		}
		return Record{}, false
	}
	rec := Record{Offset: r.pos}
	tag := r.rep[r.pos]
	if int(tag) >= len(forms) || !forms[tag].known {
		r.err = fmt.Errorf("%w: 0x%02x at byte %d", ErrTag, tag, r.pos)
		return Record{}, false
	}
	f := forms[tag]
	rec.Kind = f.kind
	r.pos++
	if f.family {
		rec.Family = cf.ID(r.varint())
	}
	if f.key {
		rec.Key = r.slice()
	}
	if f.value {
		rec.Value = r.slice()
	}
	rec.ValueOffset = r.pos - len(rec.Value)
	if r.err != nil {
		return Record{}, false
	}
	if rec.Kind.Counted() {
		r.n++
	}
	return rec, true
}

// Err returns the error that ended the reading, nil at the end of a valid batch. It wraps one of the errors of this
// package.
func (r *Reader) Err() error { return r.err }

// varint reads a varint32. Like RocksDB it accepts encodings longer than needed, up to 5 bytes.
func (r *Reader) varint() uint32 {
	if r.err != nil {
		return 0
	}
	var v uint32
	for i := range maxVarint32Len {
		if r.pos+i >= len(r.rep) {
			r.err = fmt.Errorf("%w: length at byte %d", ErrTruncated, r.pos)
			return 0
		}
		c := r.rep[r.pos+i]
		if i == maxVarint32Len-1 && c > lastVarint32ByteMax {
			break
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.pos += i + 1
			return v
		}
	}
	r.err = fmt.Errorf("%w: at byte %d", ErrVarint, r.pos)
	return 0
}

// slice reads a length-prefixed operand.
func (r *Reader) slice() []byte {
	n := r.varint()
	if r.err != nil {
		return nil
	}
	if uint64(n) > uint64(len(r.rep)-r.pos) {
		r.err = fmt.Errorf("%w: %d bytes at byte %d of %d", ErrTruncated, n, r.pos, len(r.rep))
		return nil
	}
	begin := r.pos
	r.pos += int(n)
	return r.rep[begin:r.pos:r.pos]
}
