package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/internal/ingeststep"
)

// Ingest brings records into a database that serves clients, as table files: past the write-ahead log, the memtables
// and, until the end, the locks of the keys. It is made for one of these:
//
//   - [DB.NewIngest]: all records of a range of slots, which must hold no key, and nobody may write to it meanwhile.
//   - [DB.NewLoad]: whole keys of a database without slots, several times. They replace the keys of their names.
//   - [DB.LoadFiles]: table files that somebody else has made, of a database without slots.
//
// What the log does not hold, nobody who reads the log gets: replicas, backups that follow, migrations. RocksDB
// therefore gives the files a sequence number of their own, in the same step of the MANIFEST that adds the files. The
// log has no write with that number, so whoever asks for it, or comes to it, learns that the log has a gap
// ([ErrWALGap]) and needs a copy of the database.
//
// To a start of the server a gap between two logs is a loss. So all memtables are flushed right before: the next start
// needs no log that is older than the files, and the MANIFEST says where the first one that it needs begins.
//
//	kill -9 before the MANIFEST has the files    the files in dir are of no use; the owner deletes dir
//	        after                                the files and the sequence number are there
//
// One goroutine at a time calls its methods. Until Close, Ingest keeps the database open.
type Ingest struct {
	db           *DB
	dir          string
	lower, upper []byte // of all keys; nil = any
	flushes      uint64 // how many flushes there were when it began
	load         *load  // nil for slots
	foreign      bool   // the files were made by somebody else: their keys are unknown
	keep         bool   // the files are copied
	fam          [cf.NumFamilies]ingestFamily
	keys         bulkCounts
	part         *ingestPart

	firstError // some records of a batch may be missing
	mu         sync.Mutex
	files      []rocks.SSTFile
}

// ingestFamily is the table file that is being written. A goroutine of its own writes it, so that two families whose
// records come alternately are written at the same time.
type ingestFamily struct {
	w     *rocks.SSTWriter
	bytes int
	files int // that were begun

	parts   chan *ingestPart // nil = no goroutine
	writing sync.WaitGroup
}

// ingestPart are records of a family, as in sortRecords.
type ingestPart struct {
	arena []byte
	at    []uint64
}

var ingestParts = sync.Pool{New: func() any { return new(ingestPart) }}

// ingestAhead is how many parts may wait for their family's goroutine: one, so that it has the next part at once.
const ingestAhead = 1

// load is what an Ingest needs to replace keys.
type load struct {
	has func(ns string) bool // which namespaces take keys
	ns  string               // the last one that does
	may func() error
	// done makes Commit stop waiting
	done <-chan struct{}
	// after is the sequence number at the end of the last Commit.
	after uint64
	// recount has the namespaces that keys have come to. Close counts those whose value is true: keys may have been
	// replaced.
	recount map[string]bool
}

var ErrIngestFlushed = errors.New("the keys were flushed meanwhile")

// NewIngest begins to collect records of slots. dir, which NewIngest creates, is for the table files. It should be on
// the file system of the database, otherwise the files are copied.
func (db *DB) NewIngest(dir string, slots cf.SlotRange) (*Ingest, error) {
	if !db.slots {
		return nil, ErrSlots
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	g := &Ingest{db: db, dir: dir, flushes: db.Flushes(), keys: bulkCounts{}}
	g.lower, g.upper = SlotBounds(slots)
	return g, nil
}

// NewLoad begins to collect keys, of namespaces that has allows. A key must come once, with all its records before the
// same Commit. may is called by Commit when all locks are held: its error is that of Commit, which may be called again.
// done, when closed, makes Commit stop waiting for compactions. dir is as for NewIngest.
func (db *DB) NewLoad(dir string, has func(ns string) bool, may func() error, done <-chan struct{}) (*Ingest, error) {
	if db.slots {
		return nil, ErrSlots
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	l := &load{has: has, may: may, done: done, recount: map[string]bool{}}
	return &Ingest{db: db, dir: dir, keys: bulkCounts{}, load: l}, nil
}

// Add adds the records of a write batch, which may only put records of the slots. Within a family the keys of all
// batches must ascend. After an error Add and Commit fail with the same error; that of writing a file may come later
// than the records.
func (g *Ingest) Add(rep []byte) error {
	if err := g.failed(); err != nil {
		return err
	}
	if err := g.add(rep); err != nil {
		g.fail(err)
	}
	return g.failed()
}

func (g *Ingest) add(rep []byte) error {
	r, err := batch.NewReader(rep)
	if err != nil {
		return foreignError(err)
	}
	p := g.emptyPart()
	var id cf.ID
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if rec.Kind == batch.LogData || rec.Kind == batch.Noop {
			continue
		}
		if err := g.check(&rec); err != nil {
			return foreignError(fmt.Errorf("%s at byte %d: %w", rec.Kind, rec.Offset, err))
		}
		if rec.Family != id {
			g.write(id)
			p, id = g.emptyPart(), rec.Family
		}
		p.at = append(p.at, uint64(len(p.arena)))
		p.arena = appendRecord(p.arena, rec.Key, rec.Value)
	}
	if err := r.Err(); err != nil {
		return foreignError(err)
	}
	g.write(id)
	return nil
}

// emptyPart returns the part for the next records.
func (g *Ingest) emptyPart() *ingestPart {
	if g.part == nil {
		g.part = ingestParts.Get().(*ingestPart)
	}
	g.part.arena, g.part.at = g.part.arena[:0], g.part.at[:0]
	return g.part
}

// check checks a record, and counts its key.
func (g *Ingest) check(rec *batch.Record) error {
	if rec.Kind != batch.Put {
		return errors.New("a record of this kind is not accepted")
	}
	var userKey []byte
	switch rec.Family {
	case cf.Metadata:
		ns, key, err := cf.SplitNSKey(rec.Key, g.db.slots)
		if err != nil {
			return err
		}
		m, _, err := cf.DecodeMeta(rec.Value)
		if err != nil {
			return err
		}
		name := cf.DefaultNamespace
		if g.load != nil {
			if err := g.load.check(ns); err != nil {
				return err
			}
			name = g.load.ns
		}
		if countable(&m) {
			g.keys.add(name, m.End(), time.Now().UnixMilli())
		}
		if f := g.db.expiry.Load(); f != nil {
			if at := firstExpiry(rec.Value); at != 0 {
				(*f)(name, key, at)
			}
		}
		userKey = key
	case cf.Default, cf.ZSetScore, cf.Stream:
		sub, err := g.db.checkSubkey(rec)
		if err != nil {
			return err
		}
		if g.load != nil {
			return g.load.check(sub.Namespace)
		}
		userKey = sub.UserKey
	default:
		return errors.New("the family holds no keys of slots")
	}
	if g.load != nil {
		return nil
	}
	// The bounds are those of the default namespace, so the slot is behind its prefix.
	if bytes.Compare(rec.Key, g.lower) < 0 || bytes.Compare(rec.Key, g.upper) >= 0 ||
		binary.BigEndian.Uint16(rec.Key[len(g.lower)-2:]) != cf.Slot(userKey) {
		return fmt.Errorf("%w: a key of slot %d is not where it belongs", cf.ErrCorrupt, cf.Slot(userKey))
	}
	return nil
}

func (l *load) check(ns []byte) error {
	if string(ns) != l.ns || l.ns == "" {
		if !l.has(string(ns)) {
			return fmt.Errorf("namespace %q takes no keys", ns)
		}
		l.ns = string(ns)
	}
	return nil
}

// A table file of the first ones, and of later ones, so that a large range does not become too many files. The keys of
// a load lie between all others: until they are compacted, a read looks into each of its files.
const (
	ingestFile      = 64 << 20
	ingestLaterFile = 256 << 20
	ingestFirst     = 8
)

// write hands over the part to the goroutine of a family.
func (g *Ingest) write(id cf.ID) {
	if len(g.part.at) == 0 {
		return
	}
	f := &g.fam[id]
	if f.parts == nil {
		parts := make(chan *ingestPart, ingestAhead)
		f.parts = parts
		f.writing.Go(func() {
			for p := range parts {
				if g.failed() == nil {
					if err := g.writePart(id, p); err != nil {
						g.fail(err)
					}
				}
				ingestParts.Put(p)
			}
		})
	}
	f.parts <- g.part
	g.part = nil
}

func (g *Ingest) writePart(id cf.ID, p *ingestPart) (err error) {
	f := &g.fam[id]
	if f.w == nil {
		path := filepath.Join(g.dir, fmt.Sprintf("%s-%d.sst", id, f.files))
		if f.w, err = g.db.rocks.NewSSTWriter(g.db.fam[id], path); err != nil {
			return err
		}
		f.files++
		g.mu.Lock()
		g.files = append(g.files, rocks.SSTFile{Family: g.db.fam[id], Path: path})
		g.mu.Unlock()
	}
	if err := f.w.Add(p.arena, p.at); err != nil {
		return keyTwice(err)
	}
	f.bytes += len(p.arena)
	if f.bytes < ingestFile || (g.load != nil || f.files > ingestFirst) && f.bytes < ingestLaterFile {
		return nil
	}
	return f.finish()
}

// finish completes the file at hand, if there is one.
func (f *ingestFamily) finish() error {
	if f.w == nil {
		return nil
	}
	err := f.w.Finish()
	f.w.Close()
	f.w, f.bytes = nil, 0
	return err
}

// written waits until the goroutine has written all parts, and ends it.
func (f *ingestFamily) written() {
	if f.parts != nil {
		close(f.parts)
		f.writing.Wait()
		f.parts = nil
	}
}

// Commit brings all records into the database, or none. It holds all locks for a moment.
func (g *Ingest) Commit() error {
	for id := range g.fam {
		g.fam[id].written()
	}
	if err := g.failed(); err != nil {
		return err
	}
	for id := range g.fam {
		if err := g.fam[id].finish(); err != nil {
			return err
		}
	}
	if len(g.files) == 0 {
		return nil
	}
	if g.load != nil {
		if err := g.db.waitCompacted(g.load.done); err != nil {
			return err
		}
	}
	g.db.copying.Lock()
	defer g.db.copying.Unlock()
	if err := g.db.FlushMemtables(); err != nil { // so that little is left to flush while the locks are held
		return err
	}
	return g.db.exclusiveRetry(func(*Tx) error {
		if g.load != nil {
			if err := g.load.may(); err != nil {
				return err
			}
		} else if g.db.Flushes() != g.flushes {
			return ErrIngestFlushed
		}
		if g.db.replica.locked.Load() {
			return ErrReplica
		}
		if err := g.db.writable(); err != nil {
			return err
		}
		return g.ingest()
	})
}

// ingest moves the files into the database. All locks are held.
func (g *Ingest) ingest() error {
	db := g.db
	ingeststep.Reached(ingeststep.Locked)
	if db.unmarked.Load() && db.empty() { // else the first write would find a database that is not empty
		var mark batch.Builder
		db.endBatch(&mark)
		if err := db.write(mark.Bytes(), db.flags); err != nil {
			return err
		}
	}
	if err := db.FlushMemtables(); err != nil {
		return err
	}
	ingeststep.Reached(ingeststep.Flushed)
	before := db.LatestSequence()
	db.derived.BeginChangeAll(derived.Nodes) // queries take no locks
	defer db.derived.EndChangeAll()
	snap := db.rocks.NewSnapshot() // with a snapshot RocksDB numbers files of a range without keys, too
	err := db.rocks.Ingest(g.files, !g.keep)
	snap.Close()
	if err != nil {
		return err
	}
	ingeststep.Reached(ingeststep.Moved)
	after := db.LatestSequence()
	if after == before { // replicas would not notice: the owner has to delete what has come
		return errors.New("the table files were ingested without a sequence number")
	}
	db.log.Info("table files were ingested", zap.Int("files", len(g.files)), zap.Uint64("sequence", after))
	g.files = nil
	db.DropCaches()
	db.presence.Clear()
	db.counts.filesChanged()
	db.watches.replaced(g.lower, g.upper)
	if g.load != nil {
		g.load.replaced(g.keys, db, before, after)
	}
	g.keys.apply(db, time.Now().UnixMilli())
	g.keys = bulkCounts{}
	if g.foreign {
		return db.recountAll()
	}
	return nil
}

// replaced notes whether the keys may have replaced others: those of a namespace that had keys when the first ones
// came, or to which others may have written since. (Keys come once.) They are not counted yet; before and after are
// the sequence numbers around the ingestion.
func (l *load) replaced(keys bulkCounts, db *DB, before, after uint64) {
	for ns := range keys {
		recount, ours := l.recount[ns]
		n := db.KeyCount(ns)
		if (n.Keys > 0 || !n.Exact) && (!ours || l.after != before) {
			recount = true
		}
		if l.recount[ns] = recount; recount {
			db.counts.of(ns).Doubt(keys[ns].total())
		}
	}
	l.after = after
}

// count begins to count the keys of the namespaces of which keys may have been replaced.
func (l *load) count(db *DB) {
	maps.DeleteFunc(l.recount, func(_ string, recount bool) bool { return !recount })
	if len(l.recount) > 0 {
		db.withAllLocks(func() {
			for ns := range l.recount {
				db.rescan(ns)
			}
		})
	}
	clear(l.recount)
}

// TableFile is a table file of a family that somebody else has made.
type TableFile struct {
	Family cf.ID
	Path   string
}

// LoadFiles brings table files into the database, all of them or none. With move they are gone afterwards, otherwise
// they are copied. Records replace those of the same keys, and are not checked: an element belongs to the collection
// whose version it carries. The files of a family may overlap, later ones win. may and done are as for [DB.NewLoad].
func (db *DB) LoadFiles(files []TableFile, move bool, may func() error, done <-chan struct{}) error {
	if db.slots {
		return ErrSlots
	}
	g := &Ingest{db: db, load: &load{may: may, done: done}, foreign: true, keep: !move}
	for _, f := range files {
		file := rocks.SSTFile{Family: db.family(f.Family), Path: f.Path}
		if err := db.rocks.CheckSST(file); err != nil {
			return fmt.Errorf("table file %s: %w", filepath.Base(f.Path), err)
		}
		g.files = append(g.files, file)
	}
	return g.Commit()
}

// waitCompacted waits while RocksDB slows down writers because compactions are behind: it does not slow down those who
// bring files.
func (db *DB) waitCompacted(done <-chan struct{}) error {
	for {
		delayed, _ := db.FamilyIntProperty(cf.Default, "rocksdb.actual-delayed-write-rate")
		stopped, _ := db.FamilyIntProperty(cf.Default, "rocksdb.is-write-stopped")
		if delayed == 0 && stopped == 0 {
			return nil
		}
		select {
		case <-done:
			return ErrClosed
		case <-db.closing:
			return ErrClosed
		case <-time.After(scanRetry):
		}
	}
}

// FlushMemtables writes the memtables of all families to files and waits.
func (db *DB) FlushMemtables() error {
	return db.whileOpen(func() error {
		for _, f := range db.rocks.Families() {
			if err := db.rocks.Flush(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close deletes the files that were not brought into the database. It may be called twice.
func (g *Ingest) Close() error {
	if g.load != nil {
		g.load.count(g.db)
	}
	for id := range g.fam {
		g.fam[id].written()
		if w := g.fam[id].w; w != nil {
			w.Close()
			g.fam[id].w = nil
		}
	}
	return os.RemoveAll(g.dir)
}
