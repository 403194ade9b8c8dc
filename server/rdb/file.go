package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// An RDB file is a header, items, and a checksum:
//
//	"REDIS" · version as 4 digits · items · 255 · u64 checksum
//	"VALKEY" · version as 3 digits · items · 255 · u64 checksum
//
// The checksum, little-endian, is the CRC-64 of all bytes before it. It exists since version 5, and is 0 when Redis was
// configured not to compute it. An item is a key
//
//	u8 type of the value · string: key · value
//
// or begins with one of the opcodes. Some opcodes describe the key that follows.
const (
	opKeyMeta   = 243 // Redis 8.6: metadata of modules about the key; Valkey 9: an import of slots
	opSlotInfo  = 244 // length: slot · length: keys · length: keys that expire
	opFunction  = 245 // string: source of a library
	opFunction0 = 246 // a library in the form of a release candidate of Redis 7.0
	opModuleAux = 247 // data of a module
	opIdle      = 248 // length: seconds since the last access of the key
	opFreq      = 249 // u8: logarithm of the access frequency of the key
	opAux       = 250 // string · string: name and value of a field about the file
	opResizeDB  = 251 // length: keys of the database · length: keys that expire
	opExpireMs  = 252 // i64, little-endian: ms since the epoch at which the key expires
	opExpire    = 253 // i32, little-endian: the same in seconds
	opSelectDB  = 254 // length: the database of the keys that follow
	opEnd       = 255
)

const (
	magic       = "REDIS"
	magicValkey = "VALKEY" // version as 3 digits
	// valkeyVersion is the latest readable version of Valkey, and the first with the other magic.
	valkeyVersion = 80
	// checksumVersion is the first version with a checksum.
	checksumVersion = 5
	// maxOther is the max memory in bytes for everything except keys and values.
	maxOther = 64 << 20
)

// Errors of [File] in addition to those of Decode.
var (
	// ErrNoRDB: it is not an RDB file, or one of a later version.
	ErrNoRDB = errors.New("rdb: not an RDB file that can be read")
	// ErrChecksum: the file was changed after it was written.
	ErrChecksum = errors.New("rdb: wrong checksum")
	ErrRead     = raw.ErrRead
)

// FileError adds the position in the file to an error.
type FileError struct {
	Offset int64  // offset of the byte after the last one read
	Key    []byte // the key with the damaged value, nil = not in a value
	Err    error
}

func (e *FileError) Error() string {
	if e.Key != nil {
		return fmt.Sprintf("%v, in the value of %.100q before byte %d", e.Err, e.Key, e.Offset)
	}
	return fmt.Sprintf("%v, before byte %d", e.Err, e.Offset)
}

func (e *FileError) Unwrap() error { return e.Err }

// Item is a key of a file, or a function library.
type Item struct {
	DB  uint64
	Key []byte
	// Value is nil for a library, and for an empty collection, which old versions of Redis wrote by mistake.
	Value *Value
	// Skipped is the reason why the value is missing, or why data without a key were skipped: see [File.SkipModules].
	Skipped string
	// Part counts the parts of a value from 0. More: another part follows. See [File.Each].
	Part int
	More bool
	// Expire is the time at which the key expires, in milliseconds since the epoch. It may be in the past.
	Expire   int64
	Expires  bool
	Function []byte // the source of a function library, nil = a key
}

// File reads an RDB file from its beginning to its end. It needs the memory of one value.
type File struct {
	// OnAux, unless it is nil, is called by Next for the fields about the file: redis-ver, valkey-ver, repl-stream-db
	// (the database selected at the end of a master's stream), lua (a script of SCRIPT LOAD, up to Redis 6.2), and
	// others. It must not keep value. Its error ends the reading.
	OnAux func(name string, value []byte) error

	src     *raw.Source
	version int
	budget  int64
	db      uint64
	chunk   []byte // see reader: keys and small values share it
	err     error
	valkey  bool // types from 22 on are those of Valkey
	skip    bool // see SkipModules
	// emit and partBytes are those of Each; emitted is an error of emit.
	emit      func(*Item) error
	partBytes int64
	emitted   error
	item      Item // used by Each
	value     Value
	// preamble: commands follow the checksum, see Preamble.
	preamble bool
}

// SkipModules makes Next return an item with [Item.Skipped] for the value of an unknown module, and for a module's data
// without a key. Otherwise both are errors.
func (f *File) SkipModules() { f.skip = true }

// Preamble declares that the file is the beginning of an append-only file: commands may follow its end.
func (f *File) Preamble() { f.preamble = true }

// Rest returns a reader of what follows the file, after Next or Each has reached the end. See Preamble.
func (f *File) Rest() io.Reader {
	return f.src.Rest()
}

// Each calls emit with all items. A value that needs more than partBytes of memory is split into parts: items with the
// same key and about that size, except for larger single elements. The parts of a list are in order, and a stream's
// groups are in the last part. Items are valid during the call. Errors are those of Next or of emit.
func (f *File) Each(partBytes int64, emit func(*Item) error) error {
	f.emit, f.partBytes = emit, partBytes
	for {
		i, err := f.Next()
		switch {
		case f.emitted != nil:
			return f.emitted
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := emit(i); err != nil {
			return err
		}
	}
}

// NewFile begins to read a file. size is its length in bytes, < 0 = unknown. A key and its value, with the memory
// needed to read them, must fit into maxBytes.
func NewFile(r io.Reader, size, maxBytes int64) (*File, error) {
	f := &File{src: raw.NewSource(r, size), budget: maxBytes}
	head := raw.NewSourceReader(f.src, 0)
	b := head.Fixed(len(magic) + 4)
	if errors.Is(head.Err, ErrRead) {
		return nil, head.Err
	}
	f.valkey = b != nil && string(b[:len(magicValkey)]) == magicValkey
	if b == nil || !f.valkey && string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrNoRDB)
	}
	first, last, text := uint64(1), uint64(MaxVersion), string(b[len(magic):])
	if f.valkey {
		first, last, text = valkeyVersion, valkeyVersion, string(b[len(magicValkey):])
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < first || n > last {
		return nil, fmt.Errorf("%w: version %q, not %04d to %04d", ErrNoRDB, text, first, last)
	}
	f.version = int(n)
	return f, nil
}

// Offset returns the number of bytes read, including those of the item that Next has returned.
func (f *File) Offset() int64 { return f.src.Taken() }

// Next returns the next item. At the end, if the checksum is right and nothing follows, the error is io.EOF. Any other
// error is a [FileError], which later calls return again.
func (f *File) Next() (*Item, error) {
	if f.err != nil {
		return nil, f.err
	}
	i := &f.item
	if f.emit == nil {
		i = &Item{}
	} else {
		*i = Item{}
	}
	err := f.next(i)
	if err == nil {
		return i, nil
	}
	if f.err = err; err != io.EOF {
		f.err = &FileError{Offset: f.src.Taken(), Key: i.Key, Err: err}
	}
	return nil, f.err
}

func (f *File) next(i *Item) error {
	for {
		r := reader{Reader: raw.NewSourceReader(f.src, min(f.budget, maxOther))}
		op := r.Byte()
		switch op {
		case opExpire, opExpireMs:
			if op == opExpire {
				if b := r.Fixed(4); b != nil {
					i.Expire = int64(int32(binary.LittleEndian.Uint32(b))) * 1000
				}
			} else {
				i.Expire = int64(r.U64())
			}
			if i.Expires = i.Expire != -1; !i.Expires { // -1 stands for no expiry
				i.Expire = 0
			}
		case opSelectDB:
			if f.db = r.Length(); f.db > math.MaxInt32 { // an int of Redis
				r.Failf("database %d", f.db)
			}
		case opResizeDB:
			r.Length()
			r.Length()
		case opSlotInfo:
			r.Length()
			r.Length()
			r.Length()
		case opFreq:
			r.Byte()
		case opIdle:
			r.Length()
		case opAux:
			name, value := r.String(), r.String()
			if r.Err == nil && f.OnAux != nil {
				if err := f.OnAux(string(name), value); err != nil {
					r.Fail(err)
				}
			}
		case opFunction:
			if i.Function = r.String(); r.Err == nil {
				return nil
			}
		case opFunction0:
			r.Failf("a library of functions as release candidates of Redis 7.0 have written it")
		case opModuleAux:
			if name := r.moduleAux(f.skip); r.Err == nil {
				i.Skipped = "data of the module " + name + " that belong to no key"
				return nil
			}
		case opKeyMeta:
			r.Fail(unknownType(op, f.valkey))
		case opEnd:
			if r.Err == nil {
				return f.end()
			}
		default:
			if r.Err == nil {
				return f.key(op, i)
			}
		}
		if r.Err != nil {
			return r.Err
		}
	}
}

func (f *File) key(t byte, i *Item) error {
	r := reader{Reader: raw.NewSourceReader(f.src, f.budget)}
	r.Chunk = f.chunk
	defer func() { f.chunk = r.Chunk }()
	last := byte(typeHashTTLPack)
	if f.valkey {
		last = typeHashTTLPre // its number has another meaning there
	}
	if t > last {
		r.Fail(unknownType(t, f.valkey))
		return r.Err
	}
	if f.valkey && t == typeHashTTLPre {
		t = typeHashValkey
	}
	key := r.String()
	if r.Err != nil {
		return r.Err
	}
	i.DB, i.Key = f.db, key
	r.skip = f.skip
	if f.emit != nil {
		r.whole, r.partBytes = r.Budget, f.partBytes
		r.part = func(v *Value) error {
			i.Value, i.More = v, true
			f.emitted = f.emit(i)
			i.Part++
			i.Value, i.More = nil, false
			return f.emitted
		}
	}
	v := &f.value
	if f.emit == nil { // the caller may keep it
		v = &Value{}
	} else {
		*v = Value{Elems: v.Elems[:0], Scores: v.Scores[:0]}
	}
	if r.value(t, v); r.Err != nil {
		return r.Err
	}
	switch {
	case v.Kind == NoKind:
		i.Skipped = string(v.String)
	case v.Kind == String || v.Kind > Hash || len(v.Elems) > 0 || i.Part > 0:
		i.Value = v
	}
	return nil
}

// unknownTypes are types of later versions. The length of their values is unknown.
var unknownTypes = map[byte]string{
	26: "stream of Redis 8.6", 27: "stream of Redis 8.8", 28: "array of Redis 8.8", 33: "GCRA object of Redis 8.8",
	opKeyMeta: "metadata of a key by modules, of Redis 8.6",
}

// unknownTypesValkey are those of Valkey.
var unknownTypesValkey = map[byte]string{23: "path hash of Valkey 9.2", 242: "command during a save of Valkey 9.2",
	opKeyMeta: "import of slots under way, of Valkey 9.0"}

func unknownType(t byte, valkey bool) error {
	names := unknownTypes
	if valkey {
		names = unknownTypesValkey
	}
	if name := names[t]; name != "" {
		return raw.Malformed("an item of type %d (%s)", t, name)
	}
	return raw.Malformed("an item of type %d", t)
}

// end reads the end of the file after the last item.
func (f *File) end() error {
	if f.version >= checksumVersion {
		want := f.src.Sum()
		r := raw.NewSourceReader(f.src, 0)
		got := r.U64()
		if r.Err != nil {
			return r.Err
		}
		if got != 0 && got != want {
			return ErrChecksum
		}
	}
	if f.preamble {
		return io.EOF
	}
	switch more, err := f.src.More(); {
	case err != nil:
		return err
	case more:
		return raw.Malformed("something follows the end (an append-only file?)")
	}
	return io.EOF
}
