package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// An RDB file is a header, items, and a checksum:
//
//	"REDIS" · version as 4 digits · items · 255 · u64 checksum
//	"VALKEY" · version as 3 digits · ...                          Valkey from 9 on
//
// The checksum, little-endian, is the CRC-64 of all that is before it. It is there from version 5 on, and 0 when Redis
// was told not to make one. An item is a key
//
//	u8 type of the value · string: key · value
//
// or begins with one of the opcodes. Some of these say something about the key that follows.
const (
	opSlotInfo  = 244 // length: slot · length: keys · length: keys that expire
	opFunction  = 245 // string: source of a library
	opFunction0 = 246 // a library in the form of a release candidate of Redis 7.0
	opModuleAux = 247 // something that a module has written
	opIdle      = 248 // length: seconds since the last access of the key
	opFreq      = 249 // u8: how often the key is accessed, as a logarithm
	opAux       = 250 // string · string: name and value of something about the file
	opResizeDB  = 251 // length: keys of the database · length: keys that expire
	opExpireMs  = 252 // i64, little-endian: ms since the epoch at which the key expires
	opExpire    = 253 // i32, little-endian: the same in seconds
	opSelectDB  = 254 // length: the database of the keys that follow
	opEnd       = 255
)

const (
	magic       = "REDIS"
	valkeyMagic = "VALKEY"
	// maxValkey is the latest version of a file of Valkey that is read, that of Valkey 9.
	maxValkey = 80
	// checksumVersion is the first version with a checksum.
	checksumVersion = 5
	// maxOther is the greatest budget of what is neither key nor value, in bytes.
	maxOther = 64 << 20
)

// The errors of [File] beyond those of Decode.
var (
	// ErrNoRDB: the file is none, or one of a later version.
	ErrNoRDB = errors.New("rdb: not an RDB file that can be read")
	// ErrChecksum: something in the file is not as it was written.
	ErrChecksum = errors.New("rdb: wrong checksum")
	// ErrRead: the file cannot be read.
	ErrRead = errors.New("rdb: reading failed")
)

// FileError says where in a file an error was found.
type FileError struct {
	Offset int64  // how many bytes were taken before, in bytes
	Key    []byte // the key whose value it is, nil = no value
	Err    error
}

func (e *FileError) Error() string {
	if e.Key != nil {
		return fmt.Sprintf("%v, in the value of %.100q before byte %d", e.Err, e.Key, e.Offset)
	}
	return fmt.Sprintf("%v, before byte %d", e.Err, e.Offset)
}

func (e *FileError) Unwrap() error { return e.Err }

// Item is a key of a file, or a library of functions.
type Item struct {
	DB  uint64
	Key []byte
	// Value is nil for an empty collection, which old versions of Redis have written by mistake, and for a library.
	Value *Value
	// Expire is when the key expires, in milliseconds since the epoch. It may have passed.
	Expire   int64
	Expires  bool
	Function []byte // the source of a library, nil = a key
}

// File reads an RDB file from its beginning to its end, and needs no more memory than for one value.
type File struct {
	// OnAux, unless it is nil, is called by Next for what the file says of itself: names are redis-ver, valkey-ver,
	// repl-stream-db (the database that a master's stream goes on with), lua (a script of SCRIPT LOAD, up to Redis 6.2),
	// and others. It must not keep value. An error of it ends the reading.
	OnAux func(name string, value []byte) error

	src     *source
	version int
	valkey  bool // types from 22 on are those of Valkey
	budget  int64
	db      uint64
	chunk   []byte // see reader: keys and small values share it
	err     error
}

// NewFile begins to read a file. size is its length, or < 0 when it is not known; a key and its value, with what is
// needed to read them, must fit into maxBytes.
func NewFile(r io.Reader, size, maxBytes int64) (*File, error) {
	f := &File{src: newSource(r, size), budget: maxBytes}
	head := reader{src: f.src}
	b := head.fixed(len(magic) + 4)
	if errors.Is(head.err, ErrRead) {
		return nil, head.err
	}
	text, isRedis := strings.CutPrefix(string(b), magic)
	if !isRedis {
		if text, f.valkey = strings.CutPrefix(string(b), valkeyMagic); !f.valkey {
			return nil, fmt.Errorf("%w: it does not begin as one", ErrNoRDB)
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	switch {
	case f.valkey && (err != nil || n != maxValkey):
		return nil, fmt.Errorf("%w: version %q of Valkey, not %03d", ErrNoRDB, text, maxValkey)
	case !f.valkey && (err != nil || n < 1 || n > MaxVersion):
		return nil, fmt.Errorf("%w: version %q, not 0001 to %04d", ErrNoRDB, text, MaxVersion)
	}
	f.version = int(n)
	return f, nil
}

// Offset returns how many bytes were taken, those of the item that Next has returned included.
func (f *File) Offset() int64 { return f.src.off }

// Next returns the next item. At the end, when the checksum is right and nothing follows it, the error is io.EOF; every
// other one is a [FileError] and is returned from then on.
func (f *File) Next() (*Item, error) {
	if f.err != nil {
		return nil, f.err
	}
	i := &Item{}
	err := f.next(i)
	if err == nil {
		return i, nil
	}
	if f.err = err; err != io.EOF {
		f.err = &FileError{Offset: f.src.off, Key: i.Key, Err: err}
	}
	return nil, f.err
}

func (f *File) next(i *Item) error {
	for {
		r := reader{src: f.src, budget: min(f.budget, maxOther)}
		op := r.byte()
		switch op {
		case opExpire, opExpireMs:
			if op == opExpire {
				if b := r.fixed(4); b != nil {
					i.Expire = int64(int32(binary.LittleEndian.Uint32(b))) * 1000
				}
			} else {
				i.Expire = int64(r.u64())
			}
			if i.Expires = i.Expire != -1; !i.Expires { // it stands for none
				i.Expire = 0
			}
		case opSelectDB:
			f.db = r.length()
		case opResizeDB:
			r.length()
			r.length()
		case opSlotInfo:
			r.length()
			r.length()
			r.length()
		case opFreq:
			r.byte()
		case opIdle:
			r.length()
		case opAux:
			name, value := r.string(), r.string()
			if r.err == nil && f.OnAux != nil {
				if err := f.OnAux(string(name), value); err != nil {
					r.fail(err)
				}
			}
		case opFunction:
			if i.Function = r.string(); r.err == nil {
				return nil
			}
		case opFunction0:
			r.failf("a library of functions as release candidates of Redis 7.0 have written it")
		case opModuleAux:
			r.fail(fmt.Errorf("%w: the data of a module", ErrUnsupported))
		case opEnd:
			if r.err == nil {
				return f.end()
			}
		default:
			if r.err == nil {
				return f.key(op, i)
			}
		}
		if r.err != nil {
			return r.err
		}
	}
}

// key reads a key with its value.
func (f *File) key(t byte, i *Item) error {
	r := reader{src: f.src, budget: f.budget, chunk: f.chunk}
	defer func() { f.chunk = r.chunk }()
	last := byte(typeHashTTLPack)
	if f.valkey {
		last = typeHashTTLPre // whose number means something else there
	}
	if t > last {
		r.failf("an item of type %d", t)
		return r.err
	}
	if f.valkey && t == typeHashTTLPre {
		t = typeHashValkey
	}
	key := r.string()
	if r.err != nil {
		return r.err
	}
	i.DB, i.Key = f.db, key
	v := &Value{}
	if r.value(t, v); r.err != nil {
		return r.err
	}
	if v.Kind == String || v.Kind == Stream || len(v.Elems) > 0 {
		i.Value = v
	}
	return nil
}

// end reads what is behind the last item.
func (f *File) end() error {
	if f.version >= checksumVersion {
		want := f.src.sum()
		r := reader{src: f.src}
		got := r.u64()
		if r.err != nil {
			return r.err
		}
		if got != 0 && got != want {
			return ErrChecksum
		}
	}
	switch _, err := f.src.next(1); {
	case err == nil:
		f.src.off--
		return malformed("something follows the end (an append-only file?)")
	case errors.Is(err, ErrRead):
		return err
	}
	return io.EOF
}
