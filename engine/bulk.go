package engine

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Bulk fills a new database with records in any order, without the write-ahead log: it sorts the records, writes table
// files and moves the files into the database. Records beyond the memory limit wait in sorted runs on the disk. The
// database must have been opened with DisableWAL, so that no log holds what would look like the beginning of the data,
// and must not be used otherwise.
//
// One goroutine calls its methods. Nothing is in the database before Finish has returned.
type Bulk struct {
	db     *DB
	dir    string // for runs and table files
	memory int    // bytes of records before they become a run
	fam    [cf.NumFamilies]bulkFamily
	size   int // bytes of the records in memory
	spills int

	spilling   sync.WaitGroup
	firstError // of a run
	// Memory of records that went into runs, to be used again when the runs are written.
	spare [cf.NumFamilies]sortRecords
	keys  bulkCounts
}

// bulkFamily holds the records of a family: those in memory, and those in runs.
type bulkFamily struct {
	sortRecords
	runs []*bulkRun
}

// bulkRun is a file of sorted records.
type bulkRun struct {
	path string
	size int64
	// index has the key and the offset of a record every runIndexEvery bytes, beginning with the first record.
	index []runPlace
}

type runPlace struct {
	key []byte
	at  int64
}

const runIndexEvery = 256 << 10

// The first runs are small, so that the last run of a small load is sorted soon. Later runs are larger, so that their
// number stays small.
const (
	firstRuns   = 32 << 20
	runsOfASize = 16
)

// bulkFile is the approximate number of bytes of records in a table file.
const bulkFile = 64 << 20

// NewBulk begins to fill a database. dir, which NewBulk creates, is for its files; memory is a limit in bytes, about.
func (db *DB) NewBulk(dir string, memory int) (*Bulk, error) {
	if db.flags&rocks.DisableWAL == 0 {
		return nil, errors.New("a database is filled without its log only")
	}
	if !db.empty() {
		return nil, errors.New("the database is not new")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	// A run is sorted while the next one is filled, and sorting takes some memory of its own.
	return &Bulk{db: db, dir: dir, memory: max(memory/3, 1<<20), keys: bulkCounts{}}, nil
}

// Version returns a version for a new collection.
func (b *Bulk) Version() uint64 { return b.db.versions.next() }

// Put adds a record. A duplicate key makes Finish fail.
func (b *Bulk) Put(id cf.ID, key, value []byte) error {
	b.size += b.fam[id].put(key, value, collectionPrefix(id, key, b.db.slots))
	if b.size > min(b.memory, firstRuns<<min(b.spills/runsOfASize, 10)) {
		return b.spill()
	}
	return nil
}

// Counted says that a metadata record of a live key was put. end is its expiry in milliseconds, 0 = never.
func (b *Bulk) Counted(ns string, end uint64) { b.keys.add(ns, end, time.Now().UnixMilli()) }

// Update runs f in a transaction of a namespace and puts the records that f has written. The transaction does not see
// records that were put before, and may only put records.
func (b *Bulk) Update(ns string, f func(tx *Tx) error) error {
	tx := b.db.txPool.Get().(*Tx)
	defer b.db.txPool.Put(tx)
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.usable(); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return b.Take(tx)
}

// Begin begins a transaction whose writes Take puts. Take may be called several times. The caller releases the
// transaction.
func (b *Bulk) Begin(ns string) *Tx {
	tx := b.db.NewTx()
	tx.Begin(ns)
	return tx
}

// Take puts what a transaction of Begin has written since the last Take. The transaction no longer sees these records.
func (b *Bulk) Take(tx *Tx) error {
	if tx.Empty() {
		return nil
	}
	defer func() {
		tx.over.reset()
		tx.batch.Reset()
		tx.deltas, tx.touched = tx.deltas[:0], tx.touched[:0]
	}()
	r, err := batch.NewReader(tx.batch.Bytes())
	if err != nil {
		return err
	}
	last := map[string][]byte{} // metadata records: a key may be written twice
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		switch {
		case rec.Kind == batch.LogData || rec.Kind == batch.Noop:
		case rec.Kind == batch.Put && rec.Family == cf.Metadata:
			last[string(rec.Key)] = rec.Value
		case rec.Kind == batch.Put:
			if err := b.Put(rec.Family, rec.Key, rec.Value); err != nil {
				return err
			}
		case rec.Kind == batch.Delete: // deletes nothing: the database is new
		default:
			return fmt.Errorf("a %s cannot be put into a new database", rec.Kind)
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	for key, value := range last {
		if err := b.Put(cf.Metadata, []byte(key), value); err != nil {
			return err
		}
		if m, _, err := cf.DecodeMeta(value); err == nil && countable(&m) {
			b.Counted(tx.ns, m.End())
		}
	}
	return nil
}

// spill turns the records in memory into runs, in the background. It waits until the previous runs are written.
func (b *Bulk) spill() error {
	b.spilling.Wait()
	if err := b.failed(); err != nil {
		return err
	}
	for id := range b.fam {
		f := &b.fam[id]
		if len(f.at) == 0 {
			continue
		}
		run := b.newRun(cf.ID(id))
		full, spare := f.sortRecords, &b.spare[id]
		f.sortRecords = *spare
		*spare = sortRecords{}
		b.spilling.Go(func() {
			if err := run.write(&full); err != nil {
				b.fail(err)
			}
			full.reset()
			*spare = full // the next spill waits for this one
		})
	}
	b.size = 0
	b.spills++
	return nil
}

// firstError keeps the first error of several goroutines.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (e *firstError) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

func (e *firstError) failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (b *Bulk) newRun(id cf.ID) *bulkRun {
	f := &b.fam[id]
	r := &bulkRun{path: filepath.Join(b.dir, fmt.Sprintf("%s-%d.run", id, len(f.runs)))}
	f.runs = append(f.runs, r)
	return r
}

func (r *bulkRun) write(f *sortRecords) error {
	file, err := os.Create(r.path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	for _, at := range f.sorted() {
		if len(r.index) == 0 || r.size-r.index[len(r.index)-1].at >= runIndexEvery {
			r.index = append(r.index, runPlace{bytes.Clone(recordKey(f.arena, at)), r.size})
		}
		n := recordLen(f.arena, at)
		r.size += int64(n)
		w.Write(f.arena[at : at+n]) // Flush returns the error
	}
	if err := w.Flush(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// Finish sorts, writes the table files and moves them into the database. Several goroutines call progress, if it is not
// nil, each with the number of bytes that it has just written.
func (b *Bulk) Finish(progress func(n int)) error {
	b.spilling.Wait()
	if err := b.failed(); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int) {}
	}
	work := make(chan func() error)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for f := range work {
				if b.failed() != nil {
					continue
				}
				if err := f(); err != nil {
					b.fail(err)
				}
			}
		})
	}
	var mu sync.Mutex
	var files []rocks.SSTFile
	write := func(id cf.ID, n int, fill func(w *rocks.SSTWriter) error) error {
		path := filepath.Join(b.dir, fmt.Sprintf("%s-%d.sst", id, n))
		w, err := b.db.rocks.NewSSTWriter(b.db.fam[id], path)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := fill(w); err != nil {
			return keyTwice(err)
		}
		if err := w.Finish(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		files = append(files, rocks.SSTFile{Family: b.db.fam[id], Path: path})
		return nil
	}
	for id := range cf.NumFamilies {
		f := &b.fam[id]
		switch {
		case len(f.runs) > 0:
			if len(f.at) > 0 {
				if err := b.newRun(id).write(&f.sortRecords); err != nil {
					b.fail(err)
				}
				f.sortRecords = sortRecords{}
			}
			b.spare[id] = sortRecords{}
			bounds := runBounds(f.runs)
			for n := range len(bounds) + 1 {
				var from, to []byte
				if n > 0 {
					from = bounds[n-1]
				}
				if n < len(bounds) {
					to = bounds[n]
				}
				work <- func() error {
					return mergeRuns(f.runs, from, to, func(fill func(w *rocks.SSTWriter) error) error {
						return write(id, n, fill)
					}, progress)
				}
			}
		case len(f.at) > 0:
			// The family is cut into pieces of about equal size, so that all CPUs write.
			at := f.sorted()
			total := uint64(len(f.arena))
			pieces := max(total/bulkFile, min(uint64(runtime.GOMAXPROCS(0)), total>>20)) + 1
			size := total/pieces + 1
			for n := 0; len(at) > 0; n++ {
				end, bytes := 0, uint64(0)
				for end < len(at) && bytes < size {
					bytes += recordLen(f.arena, at[end])
					end++
				}
				part := at[:end]
				at = at[end:]
				work <- func() error {
					return write(id, n, func(w *rocks.SSTWriter) error { return addAll(w, f.arena, part, progress) })
				}
			}
		}
	}
	close(work)
	workers.Wait()
	if err := b.failed(); err != nil {
		return err
	}
	if err := b.db.rocks.Ingest(files, true); err != nil {
		return keyTwice(err)
	}
	b.db.DropCaches()
	return b.settle()
}

// settle writes one more record, so that the sequence number differs from that of an empty database, and counts the
// keys.
func (b *Bulk) settle() error {
	err := b.db.Update(cf.DefaultNamespace, nil, func(tx *Tx) error {
		if !b.db.unmarked.Load() { // otherwise the commit carries a record anyway
			tx.Put(cf.Propagate, []byte(cf.PropagateReplicationID), nil)
			tx.Delete(cf.Propagate, []byte(cf.PropagateReplicationID))
			return nil
		}
		tx.Put(cf.Propagate, []byte(cf.PropagateBitOrder), []byte(cf.BitOrderRedis))
		return nil
	})
	if err != nil {
		return err
	}
	b.db.unmarked.Store(false)
	if err := b.db.FlushMemtable(cf.Propagate); err != nil {
		return err
	}
	b.keys.apply(b.db, time.Now().UnixMilli())
	return nil
}

// keyTwice translates the RocksDB error that reports keys out of order.
func keyTwice(err error) error {
	if e, ok := errors.AsType[*rocks.Error](err); ok && strings.Contains(e.Text, "strict ascending order") {
		return errors.New("a key, or an element of a collection, appears twice")
	}
	return err
}

// addAll adds records in pieces and calls progress after each piece.
func addAll(w *rocks.SSTWriter, arena []byte, at []uint64, progress func(n int)) error {
	for len(at) > 0 {
		part := at[:min(len(at), 8192)]
		at = at[len(part):]
		if err := w.Add(arena, part); err != nil {
			return err
		}
		n := 0
		for _, at := range part {
			n += int(recordLen(arena, at))
		}
		progress(n)
	}
	return nil
}

// runBounds returns keys that cut the runs into pieces of about equal size: enough pieces for all CPUs, and none much
// larger than a table file should be.
func runBounds(runs []*bulkRun) [][]byte {
	var keys [][]byte
	total := int64(0)
	for _, r := range runs {
		total += r.size
		for _, p := range r.index {
			keys = append(keys, p.key)
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	pieces := int(max(total/bulkFile, min(int64(runtime.GOMAXPROCS(0)), total>>20))) + 1
	var bounds [][]byte
	for n := 1; n < pieces; n++ {
		if key := keys[n*len(keys)/pieces]; len(bounds) == 0 || !bytes.Equal(key, bounds[len(bounds)-1]) {
			bounds = append(bounds, key)
		}
	}
	return bounds
}

// mergeRuns merges the records of the runs in [from, to) into a table file, if any exist; nil = no bound.
func mergeRuns(runs []*bulkRun, from, to []byte, write func(fill func(w *rocks.SSTWriter) error) error,
	progress func(int)) error {
	var h runHeap
	defer func() {
		for _, r := range h {
			r.file.Close()
		}
	}()
	for _, run := range runs {
		r, err := run.open(from, to)
		if err != nil {
			return err
		}
		if r != nil {
			h = append(h, r)
		}
	}
	if len(h) == 0 {
		return nil
	}
	heap.Init(&h)
	return write(func(w *rocks.SSTWriter) error {
		var arena []byte
		var at []uint64
		for len(h) > 0 {
			r := h[0]
			at = append(at, uint64(len(arena)))
			arena = append(arena, r.record...)
			err := r.next()
			switch {
			case err == io.EOF:
				r.file.Close()
				heap.Pop(&h)
			case err != nil:
				return err
			default:
				heap.Fix(&h, 0)
			}
			if len(arena) >= 1<<20 || len(h) == 0 {
				if err := addAll(w, arena, at, progress); err != nil {
					return err
				}
				arena, at = arena[:0], at[:0]
			}
		}
		return nil
	})
}

// runReader reads a part of a run.
type runReader struct {
	file   *os.File
	r      *bufio.Reader
	to     []byte // exclusive upper bound, nil = the end
	record []byte
}

// open returns a reader at the first record of [from, to), nil when the range is empty.
func (r *bulkRun) open(from, to []byte) (*runReader, error) {
	i, found := slices.BinarySearchFunc(r.index, from, func(p runPlace, key []byte) int {
		return bytes.Compare(p.key, key)
	})
	if !found && i > 0 {
		i--
	}
	file, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	x := &runReader{file: file, r: bufio.NewReaderSize(file, 256<<10), to: to}
	if _, err = file.Seek(r.index[i].at, io.SeekStart); err == nil {
		for err = x.next(); err == nil && bytes.Compare(recordKey(x.record, 0), from) < 0; {
			err = x.next()
		}
	}
	if err != nil {
		file.Close()
		if err == io.EOF {
			return nil, nil
		}
		return nil, err
	}
	return x, nil
}

// next reads the next record; at the end the error is io.EOF.
func (r *runReader) next() error {
	var head [recordHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return err
	}
	n := recordLen(head[:], 0)
	if n > math.MaxInt32 {
		return errors.New("a sorted run is damaged")
	}
	r.record = append(slices.Grow(r.record[:0], int(n)), head[:]...)[:n]
	if _, err := io.ReadFull(r.r, r.record[recordHead:]); err != nil {
		return err
	}
	if r.to != nil && bytes.Compare(recordKey(r.record, 0), r.to) >= 0 {
		return io.EOF
	}
	return nil
}

// runHeap has the run with the smallest key at its top.
type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	return bytes.Compare(recordKey(h[i].record, 0), recordKey(h[j].record, 0)) < 0
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Close removes the files of Bulk. It must be called, even after Finish.
func (b *Bulk) Close() error {
	b.spilling.Wait()
	return os.RemoveAll(b.dir)
}
