// Package rocks is the only package that talks to RocksDB: grocksdb for what it offers, and a small C++ shim
// (shim.h) for what grocksdb lacks or what must be one crossing from Go into C.
//
// Nothing here knows Redis. Raw handles never leave package engine. Every native object has one owner and one
// Close; [LiveObjects] counts those that are open, so that a leak shows in a test.
package rocks

/*
#cgo CXXFLAGS: -std=c++17 -O2
#cgo LDFLAGS: -L${SRCDIR}/lib -lrocksdb -lstdc++ -lm
#cgo noescape bk_get
#cgo nocallback bk_get
#cgo noescape bk_get_rest
#cgo nocallback bk_get_rest
#cgo noescape bk_rest_copy
#cgo nocallback bk_rest_copy
#cgo noescape bk_multiget
#cgo nocallback bk_multiget
#cgo noescape bk_peek
#cgo nocallback bk_peek
#cgo noescape bk_multiget_rest
#cgo nocallback bk_multiget_rest
#cgo noescape bk_iter_open
#cgo nocallback bk_iter_open
#cgo noescape bk_iter_fill
#cgo nocallback bk_iter_fill
#cgo noescape bk_iter_skip
#cgo nocallback bk_iter_skip
#cgo noescape bk_count
#cgo nocallback bk_count
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// live counts the native objects that are open.
var live atomic.Int64

// LiveObjects returns how many native objects (databases, caches, iterators, snapshots, WAL iterators) are
// open in this process.
func LiveObjects() int64 { return live.Load() }

// Error is a status that RocksDB returned.
type Error struct {
	Code int // rocksdb::Status::Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Status codes of RocksDB that callers tell apart.
const (
	CodeBusy       = 11
	CodeIOError    = 5
	CodeIncomplete = 7
)

// takeErr frees a C error string and returns it as a Go error, nil for none.
func takeErr(cerr *C.char) error {
	if cerr == nil {
		return nil
	}
	text := C.GoString(cerr)
	C.free(unsafe.Pointer(cerr))
	if strings.HasPrefix(text, "Corruption") {
		sendCorrupt(text)
	}
	return &Error{Text: text}
}

// raw returns the C pointer that a grocksdb object wraps: its first field.
func raw[T any](p *T) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(p)) }

func bytesPtr(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// Family is an open column family. It lives as long as its DB.
type Family struct {
	Name string
	h    *grocksdb.ColumnFamilyHandle
	ptr  unsafe.Pointer
	opts *grocksdb.Options
}

// DB is an open database. It owns its families, options, cache and read options. All of these may be exchanged for
// those of another database while nobody uses them ([DB.Stop], [DB.Shut], [DB.Reopen], [DB.Admit]); the DB, its lanes
// and the known families stay.
//
// Get, MultiGet, GetSlices, Count, NewIter and Write are for callers that have entered one of its lanes; the other
// methods do that themselves, and after Stop answer [ErrClosed] or nothing.
type DB struct {
	gate     gate
	db       *grocksdb.DB
	ptr      unsafe.Pointer
	families []*Family
	added    atomic.Pointer[[]*Family] // by CreateFamily since the database was opened
	opts     *grocksdb.Options
	cache    *C.bk_cache
	ro       *grocksdb.ReadOptions
	roPtr    unsafe.Pointer
	handle   uintptr
}

// Open opens the database in dir with the given families, the known ones first, creating what is missing.
func Open(dir string, families []string, opt *Options) (*DB, error) {
	d := &DB{}
	d.gate.init()
	if err := d.open(dir, families, opt); err != nil {
		return nil, err
	}
	return d, nil
}

// open makes all native objects. A family that has been open before keeps its Go object.
func (d *DB) open(dir string, families []string, opt *Options) error {
	d.handle = registerHooks(opt)
	d.newCache(opt)
	d.opts = opt.dbOptions(dir, d.handle)
	names := make([]string, len(families))
	cfOpts := make([]*grocksdb.Options, len(families))
	for i, name := range families {
		names[i] = name
		cfOpts[i] = opt.familyOptions(name, d.cache, d.handle)
	}
	openFamilies := grocksdb.OpenDbColumnFamilies
	if opt.ReadOnly {
		openFamilies = openReadOnly
	}
	db, handles, err := openFamilies(d.opts, dir, names, cfOpts)
	if err != nil {
		for _, o := range cfOpts {
			o.Destroy()
		}
		d.opts.Destroy()
		d.freeCache()
		unregisterHooks(d.handle)
		return err
	}
	live.Add(1)
	d.db, d.ptr = db, raw(db)
	known := d.families[:min(len(d.families), len(opt.Families))]
	d.families = make([]*Family, len(handles))
	for i, h := range handles {
		f := new(Family)
		if i < len(known) {
			f = known[i]
		}
		*f = Family{Name: names[i], h: h, ptr: raw(h), opts: cfOpts[i]}
		d.families[i] = f
	}
	d.ro = grocksdb.NewDefaultReadOptions()
	d.roPtr = raw(d.ro)
	return nil
}

// Reopen opens a database in place of the one that [DB.Shut] has closed. Nobody uses it until [DB.Admit].
func (d *DB) Reopen(dir string, families []string, opt *Options) error {
	return d.open(dir, families, opt)
}

// Admit lets everybody use the database again.
func (d *DB) Admit() { d.gate.closed.Store(false) }

// Family returns the i-th family in the order that Open was given.
func (d *DB) Family(i int) *Family { return d.families[i] }

// HasFamily reports whether a column family is open, by its number in write batches. The caller has entered.
func (d *DB) HasFamily(id uint32) bool {
	return slices.ContainsFunc(d.all(), func(f *Family) bool { return f.h.ID() == id })
}

// all returns the families that are open.
func (d *DB) all() []*Family {
	if added := d.added.Load(); added != nil {
		return slices.Concat(d.families, *added)
	}
	return d.families
}

// CreateFamily creates a column family that gets a number in write batches. RocksDB counts the
// numbers up, so it can be that the number is not the one that is wanted: then there is no family and an error. Two
// calls at once are not allowed.
func (d *DB) CreateFamily(name string, id uint32, opt *Options) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	o := opt.familyOptions(name, d.cache, d.handle)
	h, err := d.db.CreateColumnFamily(o, name)
	if err != nil {
		o.Destroy()
		return err
	}
	if got := h.ID(); got != id {
		err := errors.Join(fmt.Errorf("the column family %s gets the number %d instead of %d", name, got, id),
			d.db.DropColumnFamily(h))
		h.Destroy()
		o.Destroy()
		return err
	}
	var added []*Family
	if old := d.added.Load(); old != nil {
		added = slices.Clone(*old)
	}
	added = append(added, &Family{Name: name, h: h, ptr: raw(h), opts: o})
	d.added.Store(&added)
	return nil
}

// Stop lets nobody use the database any more, cuts compactions that were asked for short, and waits until everybody who
// uses it has left and all iterators, snapshots and readers of the log are closed. While that takes time it calls
// waiting, unless that is nil, with the number of users.
func (d *DB) Stop(waiting func(users int64)) {
	d.gate.closed.Store(true)
	if d.db != nil {
		C.bk_cancel_compactions(d.ptr) // they may run for hours
	}
	d.gate.wait(waitingEvery, waiting)
}

// waitingEvery is the time between two calls of what Stop was given.
const waitingEvery = 5 * time.Second

// LastSequence is LatestSequence for the owner between Stop and Close.
func (d *DB) LastSequence() uint64 {
	if d.db == nil {
		return 0
	}
	return d.db.GetLatestSequenceNumber()
}

// Close closes the database and frees everything that it owns, after Stop. With sync the log is brought to the disk
// before; the error is about that.
func (d *DB) Close(sync bool) error {
	if !d.gate.closed.Load() {
		d.Stop(nil)
	}
	return d.Shut(sync)
}

// Shut is Close for one that will be opened again, see [DB.Reopen]. Stop was called. It does nothing when the
// database is shut already.
func (d *DB) Shut(sync bool) error {
	if d.db == nil {
		return nil
	}
	var err error
	if sync {
		err = d.db.FlushWAL(true)
	}
	families := d.all()
	for _, f := range families {
		f.h.Destroy()
	}
	d.added.Store(nil)
	d.db.Close()
	d.db, d.ptr = nil, nil
	live.Add(-1)
	d.ro.Destroy()
	for _, f := range families {
		f.opts.Destroy()
	}
	d.opts.Destroy()
	d.freeCache()
	unregisterHooks(d.handle)
	return err
}

// Get appends the value of a key to dst. found is false when there is none.
//
// The value is copied once, straight into the spare capacity of dst when it fits there.
func (d *DB) Get(f *Family, key, dst []byte) (value []byte, found bool, err error) {
	spare := dst[len(dst):cap(dst)]
	var rest unsafe.Pointer
	var cerr *C.char
	n := int(C.bk_get(d.ptr, d.roPtr, f.ptr, bytesPtr(key), C.size_t(len(key)), bytesPtr(spare), C.size_t(len(spare)),
		&rest, &cerr))
	switch {
	case n == -1:
		return dst, false, nil
	case n < 0:
		return dst, false, takeErr(cerr)
	case n <= len(spare):
		return dst[:len(dst)+n], true, nil
	}
	size := len(dst) + n
	if n <= longValue { // the next ones are likely to be about as long
		size += n/4 + 64
	}
	grown := make([]byte, len(dst)+n, size)
	copy(grown, dst)
	C.bk_get_rest(rest, bytesPtr(grown[len(dst):]))
	return grown, true, nil
}

// longValue is the length from which on a buffer is made for one value only.
const longValue = 1 << 20

// GetHead copies the first bytes of the value of a key into head, as many as fit, and returns the length of the whole
// value. found is false when there is none.
func (d *DB) GetHead(f *Family, key, head []byte) (size int, found bool, err error) {
	var cerr *C.char
	n := int(C.bk_get(d.ptr, d.roPtr, f.ptr, bytesPtr(key), C.size_t(len(key)), bytesPtr(head), C.size_t(len(head)),
		nil, &cerr))
	return lengthOf(n, cerr)
}

// Held is a value that RocksDB has found and that was not copied. The zero value holds none.
type Held struct {
	ptr  unsafe.Pointer
	size int
}

// Size returns the length of the value, 0 when none is held.
func (h *Held) Size() int { return h.size }

// Copy copies the bytes of the value from an offset on into dst; they must lie within it.
func (h *Held) Copy(from int, dst []byte) {
	if len(dst) > 0 && from >= 0 && from+len(dst) <= h.size {
		C.bk_rest_copy(h.ptr, C.size_t(from), bytesPtr(dst), C.size_t(len(dst)))
	}
}

// Close gives the value back. It may be called twice, and when none is held.
func (h *Held) Close() {
	if h.ptr != nil {
		C.bk_rest_free(h.ptr)
		*h = Held{}
		live.Add(-1)
	}
}

// GetHeld is Get of a value that fits the spare capacity of dst. Of a longer one it appends what fits, and h holds the
// value until the caller closes it.
func (d *DB) GetHeld(f *Family, key, dst []byte, h *Held) (value []byte, found bool, err error) {
	spare := dst[len(dst):cap(dst)]
	var rest unsafe.Pointer
	var cerr *C.char
	n := int(C.bk_get(d.ptr, d.roPtr, f.ptr, bytesPtr(key), C.size_t(len(key)), bytesPtr(spare), C.size_t(len(spare)),
		&rest, &cerr))
	size, found, err := lengthOf(n, cerr)
	if size <= len(spare) {
		return dst[:len(dst)+size], found, err
	}
	live.Add(1)
	*h = Held{ptr: rest, size: size}
	h.Copy(0, spare)
	return dst[:cap(dst)], true, nil
}

// lengthOf tells what a point read has returned: the length of a value, -1 when there is none, less with an error.
func lengthOf(n int, cerr *C.char) (size int, found bool, err error) {
	switch {
	case n == -1:
		return 0, false, nil
	case n < 0:
		return 0, false, takeErr(cerr)
	}
	return n, true, nil
}

// Peek looks for the values of several keys of a family in memtables, filters and the block cache, and reads no file.
// keys and lens are those of MultiGet. sizes gets the length of each value, or [Missing] or [Untold]; heads its first
// bytes, as many as len(heads) has for each key.
func (d *DB) Peek(f *Family, keys []byte, lens, sizes []uint32, heads []byte) {
	C.bk_peek(d.ptr, f.ptr, C.int(len(lens)), bytesPtr(keys), (*C.uint32_t)(unsafe.SliceData(lens)),
		C.size_t(len(heads)/len(lens)), (*C.uint32_t)(unsafe.SliceData(sizes)), bytesPtr(heads))
}

// keptByThread returns how many bytes the calling thread keeps for its next reads.
func keptByThread() int { return int(C.bk_kept()) }

// What stands for the length of a value in the results of MultiGet and Peek.
const (
	Missing = 1<<32 - 1 // there is none
	Untold  = 1<<32 - 2 // memory does not tell; only of Peek
)

// MultiGet reads several keys of one family in one batch: keys concatenated in keys, their lengths in lens.
// buf is filled with, a key: u32 length (little-endian; Missing = there is none), value; it is grown when it is
// too small, and returned. Of a value longer than most, unless that is 0, only so many bytes follow its length.
func (d *DB) MultiGet(f *Family, keys []byte, lens []uint32, most int, buf []byte) ([]byte, error) {
	buf = buf[:cap(buf)]
	var rest unsafe.Pointer
	var cerr *C.char
	n := int(C.bk_multiget(d.ptr, d.roPtr, f.ptr, C.int(len(lens)), bytesPtr(keys), (*C.uint32_t)(unsafe.SliceData(lens)),
		C.size_t(most), bytesPtr(buf), C.size_t(len(buf)), &rest, &cerr))
	switch {
	case n < 0:
		return nil, takeErr(cerr)
	case n <= len(buf):
		return buf[:n], nil
	case n <= longValue:
		buf = make([]byte, n, n+n/4)
	default:
		buf = make([]byte, n)
	}
	C.bk_multiget_rest(rest, bytesPtr(buf))
	return buf, nil
}

// WriteFlags are the write options of one commit.
type WriteFlags uint32

// The write options.
const (
	Sync       WriteFlags = C.BK_SYNC
	DisableWAL WriteFlags = C.BK_DISABLE_WAL
	NoSlowdown WriteFlags = C.BK_NO_SLOWDOWN
	LowPri     WriteFlags = C.BK_LOW_PRI
	InsertHint WriteFlags = C.BK_INSERT_HINT
)

// Write commits a write batch in RocksDB's representation and returns the sequence number of its first record.
func (d *DB) Write(rep []byte, flags WriteFlags) (seq uint64, err error) {
	var cerr *C.char
	n := int64(C.bk_write(d.ptr, bytesPtr(rep), C.size_t(len(rep)), C.uint32_t(flags), &cerr))
	if n >= 0 {
		return uint64(n), nil
	}
	err = takeErr(cerr)
	var e *Error
	if errors.As(err, &e) {
		e.Code = int(-n) - 1
	}
	return 0, err
}

// Snapshot is a consistent view; the caller closes it.
type Snapshot struct {
	d *DB
	s *grocksdb.Snapshot
}

// NewSnapshot takes a snapshot of the current state. On a closed database it is nil.
func (d *DB) NewSnapshot() *Snapshot {
	if !d.enter() {
		return nil
	}
	live.Add(1)
	return &Snapshot{d: d, s: d.db.NewSnapshot()}
}

// Close releases the snapshot. It may be called twice, and for nil.
func (s *Snapshot) Close() {
	if s == nil || s.s == nil {
		return
	}
	s.d.db.ReleaseSnapshot(s.s)
	s.s = nil
	live.Add(-1)
	s.d.leave()
}

// Sequence returns the sequence number of the newest write that the snapshot sees; 0 for nil.
func (s *Snapshot) Sequence() uint64 {
	if s == nil || s.s == nil {
		return 0
	}
	return uint64(C.bk_snapshot_sequence(s.ptr()))
}

func (s *Snapshot) ptr() unsafe.Pointer {
	if s == nil {
		return nil
	}
	return raw(s.s)
}

// Count returns how many keys are in [lower, upper), at most max when max is not 0.
func (d *DB) Count(f *Family, snap *Snapshot, lower, upper []byte, max uint64, reverse bool) (uint64, error) {
	var cerr *C.char
	rev := C.int(0)
	if reverse {
		rev = 1
	}
	n := uint64(C.bk_count(d.ptr, f.ptr, snap.ptr(), bytesPtr(lower), C.size_t(len(lower)), bytesPtr(upper),
		C.size_t(len(upper)), C.uint64_t(max), rev, &cerr))
	return n, takeErr(cerr)
}

// CompareZSetScore compares two keys with the native twin of the zset_score order.
func CompareZSetScore(a, b []byte) int {
	return int(C.bk_compare_zset_score(bytesPtr(a), C.size_t(len(a)), bytesPtr(b), C.size_t(len(b))))
}

func (e *Error) GoString() string { return fmt.Sprintf("rocksdb status %d: %s", e.Code, e.Text) }
