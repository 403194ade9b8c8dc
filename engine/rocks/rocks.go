// Package rocks is the only package that calls RocksDB: through grocksdb, and through the C++ of package shim for what
// grocksdb lacks, and what must be a single cgo call.
//
// The package knows nothing about Redis. Raw handles never leave package engine. Every native object has one owner and
// one Close; [LiveObjects] counts the open ones, so that a test can detect a leak.
package rocks

/*
#cgo LDFLAGS: -L${SRCDIR}/lib -lrocksdb -lstdc++ -lm
#cgo noescape bk_get
#cgo nocallback bk_get
#cgo noescape bk_get_rest
#cgo nocallback bk_get_rest
#cgo noescape bk_rest_copy
#cgo nocallback bk_rest_copy
#cgo noescape bk_multiget
#cgo nocallback bk_multiget
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
#include "shim/shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/linxGnu/grocksdb"

	_ "github.com/basaltdb/basalt/engine/rocks/shim" // the functions of shim.h
)

// live is the number of open native objects.
var live atomic.Int64

// LiveObjects returns how many native objects (databases, caches, iterators, snapshots, WAL iterators) are open in this
// process.
func LiveObjects() int64 { return live.Load() }

// Error is a status that RocksDB returned.
type Error struct {
	Text   string
	Damage bool // a file is damaged, missing or cannot be read
}

func (e *Error) Error() string { return e.Text }

// takeErr frees a C error string and returns it as a Go error; nil for NULL.
func takeErr(cerr *C.char) error {
	if cerr == nil {
		return nil
	}
	text := C.GoString(cerr)
	C.free(unsafe.Pointer(cerr))
	damage := strings.HasPrefix(text, "Corruption")
	if damage {
		sendCorrupt(text)
	}
	return &Error{Text: text, Damage: damage}
}

// readErr is [takeErr] for a call that reads. An I/O error of such a call is damage too, for example a missing file,
// unless file descriptors are lacking.
func readErr(cerr *C.char) error {
	err := takeErr(cerr)
	if e, ok := err.(*Error); ok && strings.HasPrefix(e.Text, "IO error") &&
		!strings.HasSuffix(e.Text, "Too many open files") {
		e.Damage = true
		sendCorrupt(e.Text)
	}
	return err
}

// raw returns the C pointer of a grocksdb object: its first field.
func raw[T any](p *T) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(p)) }

func bytesPtr(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// Family is an open column family. It is valid as long as its DB.
type Family struct {
	Name string
	h    *grocksdb.ColumnFamilyHandle
	ptr  unsafe.Pointer
	opts *grocksdb.Options
}

// DB is an open database. It owns its families, options, cache and read options. While no one uses them, all of these
// may be replaced by those of another database ([DB.Stop], [DB.Shut], [DB.Reopen], [DB.Admit]); the DB, its lanes and
// the known families remain.
//
// Callers of Get, MultiGet, GetSlices, Count, NewIter and Write must have entered one of its lanes. The other methods
// enter themselves, and after Stop return [ErrClosed] or nothing.
type DB struct {
	gate     gate
	db       *grocksdb.DB
	ptr      unsafe.Pointer
	families []*Family
	added    atomic.Pointer[[]*Family] // created by CreateFamily since the database was opened
	opts     *grocksdb.Options
	cache    *C.bk_cache

	cacheSize  int          // bytes of the block cache, as the options say
	cacheGiven atomic.Int64 // see ShrinkCache
	ro         *grocksdb.ReadOptions
	roPtr      unsafe.Pointer
	handle     uintptr
}

// Open opens the database in dir with the given families, the known ones first, and creates what is missing.
func Open(dir string, families []string, opt *Options) (*DB, error) {
	d := &DB{}
	d.gate.init()
	if err := d.open(dir, families, opt); err != nil {
		return nil, err
	}
	return d, nil
}

// open creates all native objects. A family that was open before keeps its Go object.
func (d *DB) open(dir string, families []string, opt *Options) error {
	d.handle = lastHandle.Add(1)
	hooks.Store(d.handle, opt)
	if d.cacheSize = opt.BlockCacheSize; d.cacheSize > 0 {
		size := max(d.cacheSize-int(d.cacheGiven.Load()), 1)
		d.cache = C.bk_cache_new(C.size_t(size), cbool(opt.HyperClockCache), C.size_t(opt.blockSize(Meta)))
		live.Add(1)
	}
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
	} else if _, err := os.Stat(filepath.Join(dir, "CURRENT")); errors.Is(err, fs.ErrNotExist) {
		openFamilies = create
	}
	db, handles, err := openFamilies(d.opts, dir, names, cfOpts)
	if err != nil {
		for _, o := range cfOpts {
			o.Destroy()
		}
		d.opts.Destroy()
		d.freeCache()
		hooks.Delete(d.handle)
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

// create creates a database: first with the default family, the first one, then the others in one call. RocksDB's Open
// would create each missing family by itself and each time write all options to a file, read this file back and compare
// it: a first start took 52 ms of processor time instead of 31, and 300 ms instead of 180 on a busy disk.
func create(opts *grocksdb.Options, dir string, names []string, families []*grocksdb.Options) (*grocksdb.DB,
	[]*grocksdb.ColumnFamilyHandle, error) {
	db, handles, err := grocksdb.OpenDbColumnFamilies(opts, dir, names[:1], families[:1])
	if err != nil || len(names) == 1 {
		return db, handles, err
	}
	rest := len(names) - 1
	cNames := make([]*C.char, rest)
	cOpts := make([]unsafe.Pointer, rest)
	made := make([]unsafe.Pointer, rest)
	for i := range rest {
		cNames[i], cOpts[i] = C.CString(names[1+i]), raw(families[1+i])
		defer C.free(unsafe.Pointer(cNames[i]))
	}
	var cerr *C.char
	C.bk_create_families(raw(db), C.int(rest), &cNames[0], &cOpts[0], &made[0], &cerr)
	if err := takeErr(cerr); err != nil {
		handles[0].Destroy()
		db.Close()
		return nil, nil, err
	}
	for _, m := range made {
		h := new(grocksdb.ColumnFamilyHandle)
		*(*unsafe.Pointer)(unsafe.Pointer(h)) = m // its first field, see raw
		handles = append(handles, h)
	}
	return db, handles, nil
}

// Reopen opens a database in the place of the one that [DB.Shut] has closed. It cannot be used before [DB.Admit].
func (d *DB) Reopen(dir string, families []string, opt *Options) error {
	return d.open(dir, families, opt)
}

// Admit lets callers use the database again.
func (d *DB) Admit() { d.gate.closed.Store(false) }

// Family returns the i-th of the families passed to Open.
func (d *DB) Family(i int) *Family { return d.families[i] }

// HasFamily reports whether a column family, given by its number in write batches, is open. The caller must have
// entered a lane.
func (d *DB) HasFamily(id uint32) bool {
	return slices.ContainsFunc(d.Families(), func(f *Family) bool { return f.h.ID() == id })
}

// Families returns the open families.
func (d *DB) Families() []*Family {
	if added := d.added.Load(); added != nil {
		return slices.Concat(d.families, *added)
	}
	return d.families
}

// CreateFamily creates a column family that must get the number id in write batches. RocksDB assigns numbers by
// counting up. If the new number is another one, CreateFamily drops the family again and returns an error. Calls must
// not be concurrent.
func (d *DB) CreateFamily(name string, id uint32, opt *Options) (*Family, error) {
	if !d.enter() {
		return nil, ErrClosed
	}
	defer d.leave()
	o := opt.familyOptions(name, d.cache, d.handle)
	h, err := d.db.CreateColumnFamily(o, name)
	if err != nil {
		o.Destroy()
		return nil, err
	}
	if got := h.ID(); got != id {
		err := errors.Join(fmt.Errorf("the column family %s gets the number %d instead of %d", name, got, id),
			d.db.DropColumnFamily(h))
		h.Destroy()
		o.Destroy()
		return nil, err
	}
	var added []*Family
	if old := d.added.Load(); old != nil {
		added = slices.Clone(*old)
	}
	f := &Family{Name: name, h: h, ptr: raw(h), opts: o}
	added = append(added, f)
	d.added.Store(&added)
	return f, nil
}

// Stop keeps new users out of the database, cancels manual compactions, and waits until all users have left and all
// iterators, snapshots and WAL readers are closed. Meanwhile it calls waiting (unless nil) with the number of users
// from time to time.
func (d *DB) Stop(waiting func(users int64)) {
	d.gate.closed.Store(true)
	if d.db != nil {
		C.bk_cancel_compactions(d.ptr) // they may run for hours
	}
	d.gate.wait(waitingEvery, waiting)
}

// waitingEvery is the time between two calls of Stop's argument.
const waitingEvery = 5 * time.Second

// LastSequence is LatestSequence for the owner, between Stop and Close.
func (d *DB) LastSequence() uint64 {
	if d.db == nil {
		return 0
	}
	return d.db.GetLatestSequenceNumber()
}

// Close closes the database and frees all that it owns. Stop must have been called. With sync it syncs the log before;
// the error is that of the sync.
func (d *DB) Close(sync bool) error {
	if !d.gate.closed.Load() {
		d.Stop(nil)
	}
	return d.Shut(sync)
}

// Shut is Close for a DB that will be reopened, see [DB.Reopen]. Stop must have been called. A second call does
// nothing.
func (d *DB) Shut(sync bool) error {
	if d.db == nil {
		return nil
	}
	var err error
	if sync {
		err = d.db.FlushWAL(true)
	}
	families := d.Families()
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
	hooks.Delete(d.handle)
	return err
}

// Get appends the value of a key to dst. found is false when the key does not exist.
//
// If the value fits into the spare capacity of dst, it is copied once, directly into dst.
func (d *DB) Get(f *Family, key, dst []byte) (value []byte, found bool, err error) {
	spare := dst[len(dst):cap(dst)]
	var rest unsafe.Pointer
	var cerr *C.char
	n := int(C.bk_get(d.ptr, d.roPtr, f.ptr, bytesPtr(key), C.size_t(len(key)), bytesPtr(spare), C.size_t(len(spare)),
		&rest, &cerr))
	if size, found, err := lengthOf(n, cerr); size <= len(spare) {
		return dst[:len(dst)+size], found, err
	}
	size := len(dst) + n
	if n <= longValue { // the next values are probably about as long
		size += n/4 + 64
	}
	grown := make([]byte, len(dst)+n, size)
	copy(grown, dst)
	C.bk_get_rest(rest, bytesPtr(grown[len(dst):]))
	return grown, true, nil
}

// longValue is the length in bytes from which a buffer is allocated for a single value.
const longValue = 1 << 20

// GetHead copies the first bytes of a value into head, as many as fit, and returns the length of the whole value. found
// is false when the key does not exist.
func (d *DB) GetHead(f *Family, key, head []byte) (size int, found bool, err error) {
	var cerr *C.char
	n := int(C.bk_get(d.ptr, d.roPtr, f.ptr, bytesPtr(key), C.size_t(len(key)), bytesPtr(head), C.size_t(len(head)),
		nil, &cerr))
	return lengthOf(n, cerr)
}

// Held is a value that RocksDB has pinned instead of copying it. The zero value holds nothing.
type Held struct {
	ptr  unsafe.Pointer
	size int
}

// Size returns the length of the value, 0 if nothing is held.
func (h *Held) Size() int { return h.size }

// Copy copies bytes of the value, from an offset on, into dst. The range must lie within the value.
func (h *Held) Copy(from int, dst []byte) {
	if len(dst) > 0 && from >= 0 && from+len(dst) <= h.size {
		C.bk_rest_copy(h.ptr, C.size_t(from), bytesPtr(dst), C.size_t(len(dst)))
	}
}

// Close unpins the value. Repeated calls are allowed, also when nothing is held.
func (h *Held) Close() {
	if h.ptr != nil {
		C.bk_rest_free(h.ptr)
		*h = Held{}
		live.Add(-1)
	}
}

// GetHeld is Get for a value that fits into the spare capacity of dst. Of a longer value it appends the part that fits,
// and h holds the whole value until the caller closes h.
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

// lengthOf decodes the result of a point read: the length of a value, -1 = not found, less with an error.
func lengthOf(n int, cerr *C.char) (size int, found bool, err error) {
	switch {
	case n == -1:
		return 0, false, nil
	case n < 0:
		return 0, false, readErr(cerr)
	}
	return n, true, nil
}

// keptByThread returns the size of the buffers that the calling thread keeps for its next reads.
func keptByThread() int { return int(C.bk_kept()) }

// Missing replaces the length of a value in the results of MultiGet: the key does not exist.
const Missing = 1<<32 - 1

// MultiGet reads several keys of one family in one batch: keys holds the concatenated keys, lens their lengths. It
// fills buf with, for each key: u32 length (little-endian; Missing = not found), value. It returns buf, grown if it was
// too small. If valueMax is not 0, values are truncated to valueMax bytes; the length is that of the whole value. It
// reads a snapshot, or with nil the present.
func (d *DB) MultiGet(snap *Snapshot, f *Family, keys []byte, lens []uint32, valueMax int, buf []byte) ([]byte,
	error) {
	buf = buf[:cap(buf)]
	var rest unsafe.Pointer
	var cerr *C.char
	n := int(C.bk_multiget(d.ptr, d.roPtr, snap.ptr(), f.ptr, C.int(len(lens)), bytesPtr(keys),
		(*C.uint32_t)(unsafe.SliceData(lens)), C.size_t(valueMax), bytesPtr(buf), C.size_t(len(buf)), &rest, &cerr))
	switch {
	case n < 0:
		return nil, readErr(cerr)
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

// Write commits a write batch in RocksDB's format and returns the sequence number of its first record.
func (d *DB) Write(rep []byte, flags WriteFlags) (seq uint64, err error) {
	var cerr *C.char
	n := int64(C.bk_write(d.ptr, bytesPtr(rep), C.size_t(len(rep)), C.uint32_t(flags), &cerr))
	if n >= 0 {
		return uint64(n), nil
	}
	return 0, takeErr(cerr)
}

// Snapshot is a consistent view of the database. The caller must close it.
type Snapshot struct {
	d *DB
	s *grocksdb.Snapshot
}

// NewSnapshot takes a snapshot of the current state; nil if the database is closed.
func (d *DB) NewSnapshot() *Snapshot {
	if !d.enter() {
		return nil
	}
	live.Add(1)
	return &Snapshot{d: d, s: d.db.NewSnapshot()}
}

// Close releases the snapshot. Repeated calls are allowed, also for nil.
func (s *Snapshot) Close() {
	if s == nil || s.s == nil {
		return
	}
	s.d.db.ReleaseSnapshot(s.s)
	s.s = nil
	live.Add(-1)
	s.d.leave()
}

// Sequence returns the sequence number of the newest write that the snapshot includes; 0 for nil.
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

// Count returns the number of keys in [lower, upper); it stops counting at max unless max is 0.
func (d *DB) Count(f *Family, snap *Snapshot, lower, upper []byte, max uint64, reverse bool) (uint64, error) {
	var cerr *C.char
	n := uint64(C.bk_count(d.ptr, f.ptr, snap.ptr(), bytesPtr(lower), C.size_t(len(lower)), bytesPtr(upper),
		C.size_t(len(upper)), C.uint64_t(max), cbool(reverse), &cerr))
	return n, readErr(cerr)
}

// CompareZSetScore compares two keys with the C++ implementation of the zset_score order.
func CompareZSetScore(a, b []byte) int {
	return int(C.bk_compare_zset_score(bytesPtr(a), C.size_t(len(a)), bytesPtr(b), C.size_t(len(b))))
}
