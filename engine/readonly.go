package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/engine/wal"
)

// ReadOnly is a database that does not change while it is read: the files of a database that no process has open
// ([OpenReadOnly]), or a snapshot of an open one ([DB.ReadOnly]). It has no caches and no locks of its own: it is for
// callers that iterate over all records. Its methods may be called by several goroutines. Everything that it returns
// must be closed before it.
type ReadOnly struct {
	dir   string
	links string // the directory that RocksDB sees
	slots bool
	rocks *rocks.DB
	fam   [cf.NumFamilies]*rocks.Family // nil: an old database lacks the family
	extra []string
	logs  *wal.Report
	lost  []LostTable
	snap  *rocks.Snapshot
	close func()
}

// OpenReadOnly reads the database in dir from its files. Nothing in dir is changed: RocksDB gets another directory with
// symbolic links to the table files and copies of the logs, and leaves its own files there. The content of the logs is
// read into memory; of a damaged log, what comes before the damage (see [ReadOnly.Logs]).
//
// It fails with [ErrLocked] when a server has the database open, with [ErrNotDatabase] when dir holds no database, and
// with [ErrDamaged] when its CURRENT or MANIFEST is missing or cannot be read, or RocksDB cannot open it.
func OpenReadOnly(dir string) (*ReadOnly, error) { return openReadOnly(dir, false) }

// OpenDamaged is OpenReadOnly that leaves out table files that are missing or that RocksDB cannot open, if only that
// makes it possible to open the database (see [ReadOnly.Lost]).
func OpenDamaged(dir string) (*ReadOnly, error) { return openReadOnly(dir, true) }

func openReadOnly(dir string, damaged bool) (*ReadOnly, error) {
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
		if err := noCurrent(dir); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s holds no database", ErrNotDatabase, dir)
	}
	release, err := claimDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, dir)
	}
	r := &ReadOnly{dir: dir, close: release}
	if err := r.open(damaged); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ReadOnly) open(damaged bool) error {
	links, err := os.MkdirTemp("", "basalt-read-")
	if err != nil {
		return err
	}
	r.links = links
	release := r.close
	r.close = func() {
		os.RemoveAll(links)
		release()
	}
	if err := linkFiles(r.dir, links, true); err != nil {
		return err
	}
	if _, err := familiesToOpen(r.dir, RefuseLoss); err != nil { // names the original files
		return err
	}
	m, err := manifest.Read(links)
	if err == nil && !m.Readable() {
		if _, err = m.MakeReadable(links); err == nil {
			m, err = manifest.Read(links)
		}
	}
	if err != nil {
		return err
	}
	if r.logs, err = checkLogs(r.dir, m, false); err != nil {
		return err
	}
	o := Options{Dir: links, Rocks: DefaultRocksOptions()}
	ro := o.rocksOptions()
	ro.ReadOnly = true
	names := m.Families()
	r.rocks, err = rocks.Open(links, names, ro)
	if err != nil && damaged {
		if err := r.findLost(m); err != nil {
			return err
		}
		if len(r.lost) > 0 {
			tables := make([]manifest.Table, len(r.lost))
			for i, t := range r.lost {
				tables[i] = t.Table
			}
			if err := m.Drop(links, tables); err != nil {
				return err
			}
			r.rocks, err = rocks.Open(links, names, ro)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, r.named(err))
	}
	release2 := r.close
	r.close = func() {
		r.rocks.Close(false)
		release2()
	}
	for i, name := range names {
		if id := slices.Index(cf.Names[:], name); id >= 0 {
			r.fam[id] = r.rocks.Family(i)
		} else {
			r.extra = append(r.extra, name)
		}
	}
	return r.findSlots()
}

// LostTable is a table file that the database needs and that cannot be opened.
type LostTable struct {
	manifest.Table
	Why error
}

// Lost returns the table files that [OpenDamaged] has left out.
func (r *ReadOnly) Lost() []LostTable { return r.lost }

// findLost finds the table files that keep RocksDB from opening the database. A file that this user may not read is an
// error: it is not lost.
func (r *ReadOnly) findLost(m *manifest.Manifest) error {
	for _, t := range m.Tables() {
		path := filepath.Join(r.dir, t.Name())
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = errors.New("the file is missing")
		case err == nil && uint64(info.Size()) != t.Size:
			err = fmt.Errorf("the file has %d bytes instead of %d", info.Size(), t.Size)
		case err == nil:
			if f, err := os.Open(path); errors.Is(err, fs.ErrPermission) {
				return err
			} else if err == nil {
				f.Close()
			}
			err = rocks.OpenTable(path)
		}
		if err != nil {
			r.lost = append(r.lost, LostTable{t, err})
		}
	}
	return nil
}

// named makes an error of RocksDB name the original files, not the links.
func (r *ReadOnly) named(err error) error {
	if r.links == "" {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), r.links, r.dir))
}

// LinkDatabase fills an empty directory so that the database in dir can be opened in it: with symbolic links to the
// table files, which RocksDB never changes, and copies of the other files. Writes, also those of the recovery, change
// nothing in dir. Until release is called, this process does not open the database in dir. LinkDatabase fails with
// [ErrLocked] while a process has it open.
func LinkDatabase(dir, to string) (release func(), err error) {
	if release, err = claimDir(dir); err != nil {
		return nil, fmt.Errorf("%w: %s", err, dir)
	}
	if err := linkFiles(dir, to, false); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// linkFiles makes a directory that looks like another one to RocksDB. Logs are copied, because RocksDB truncates the
// space that it had preallocated behind their ends. With reads the directory is only read from: the MANIFEST is linked,
// and files that RocksDB does not need are left out.
func linkFiles(dir, links string, reads bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(dir, e.Name()), filepath.Join(links, e.Name())
		name, ext := e.Name(), filepath.Ext(e.Name())
		var err error
		switch {
		case ext == ".sst", ext == ".blob", reads && (name == "CURRENT" || strings.HasPrefix(name, "MANIFEST-")):
			err = os.Symlink(from, to)
		case ext == ".log", !reads && e.Type().IsRegular() && !strings.HasPrefix(name, "LOG"):
			var data []byte
			if data, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, data, 0o600)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkLogs reports what the logs of a database lack. gaps says whether some writes may be in no log.
func checkLogs(dir string, m *manifest.Manifest, gaps bool) (*wal.Report, error) {
	list, err := wal.ReadList(dir)
	if err != nil {
		return nil, err
	}
	_, lockErr := os.Stat(filepath.Join(dir, "LOCK"))
	return wal.Check(dir, wal.State{
		MinLog: m.MinLog, NewestLog: m.NewestLog, LastSequence: m.LastSequence,
		Opened: lockErr == nil, Gaps: gaps, List: list,
	})
}

// ReadOnly returns the database as it is now. The caller closes it before the database.
func (db *DB) ReadOnly() *ReadOnly {
	r := &ReadOnly{dir: db.dir, slots: db.slots, rocks: db.rocks, fam: db.fam, extra: db.UnknownFamilies(),
		logs: &wal.Report{}, snap: db.rocks.NewSnapshot()}
	r.close = r.snap.Close
	return r
}

// Close frees the resources of the database.
func (r *ReadOnly) Close() { r.close() }

// Dir returns the directory of the database.
func (r *ReadOnly) Dir() string { return r.dir }

// Slots reports whether keys carry the cluster slot, as inferred from the keys.
func (r *ReadOnly) Slots() bool { return r.slots }

// UnknownFamilies returns the names of the families whose content this version does not know.
func (r *ReadOnly) UnknownFamilies() []string { return r.extra }

// Logs reports what is damaged in or missing from the logs. Its Loss is nil when nothing is.
func (r *ReadOnly) Logs() *wal.Report { return r.logs }

// Get appends the value of a record to dst.
func (r *ReadOnly) Get(id cf.ID, key, dst []byte) (value []byte, found bool, err error) {
	it := r.iter(id, key, append(slices.Clone(key), 0), 0, 1)
	defer it.Close()
	if it.Next() {
		return append(dst, it.Value()...), true, nil
	}
	return dst, false, it.Err()
}

// iter reads the records of a family in [lower, upper); an empty bound is no bound. It reads at most valueMax bytes of
// a value, 0 = all.
func (r *ReadOnly) iter(id cf.ID, lower, upper []byte, valueMax, limit int) rocks.Iter {
	if r.fam[id] == nil {
		return rocks.Iter{}
	}
	return r.rocks.NewIter(r.fam[id], &rocks.Range{Lower: lower, Upper: upper, ValueMax: valueMax, Limit: limit,
		Flags: rocks.NoFill, Snapshot: r.snap}, nil)
}

// Table is a table file of a database.
type Table struct {
	Family string
	Path   string
	Bytes  int64
}

// Tables returns the table files in the order of families and levels.
func (r *ReadOnly) Tables() []Table {
	var tables []Table
	for _, f := range r.rocks.LiveFiles() {
		name := filepath.Join(r.dir, filepath.Base(f.Name))
		tables = append(tables, Table{Family: f.ColumnFamilyName, Path: name, Bytes: int64(f.Size)})
	}
	return tables
}

// readOnlySample is the number of metadata records from which findSlots infers whether keys carry the cluster slot.
const readOnlySample = 1000

// findSlots infers whether keys carry the cluster slot: if so, most keys begin with their own slot. Unlike
// [DB.checkSlots] it tolerates single wrong keys, because finding them is the purpose.
func (r *ReadOnly) findSlots() error {
	it := r.iter(cf.Metadata, nil, nil, 1, readOnlySample)
	defer it.Close()
	n, own := 0, 0
	for ; n < readOnlySample && it.Next(); n++ {
		key := it.Key()
		_, userKey, err := cf.SplitNSKey(key, true)
		if err == nil && binary.BigEndian.Uint16(key[len(key)-len(userKey)-2:]) == cf.Slot(userKey) {
			own++
		}
	}
	r.slots = 2*own > n
	if err := it.Err(); err != nil && n == 0 && !errors.As(err, new(*rocksError)) {
		return err
	}
	return nil
}

// Records returns about how many records a family holds.
func (r *ReadOnly) Records(id cf.ID) int64 {
	if r.fam[id] == nil {
		return 0
	}
	s, _ := r.rocks.Stored(r.fam[id])
	return int64(s.Puts)
}

// WriteUncounted writes a batch without locks, caches and key counts: for repairs of a database without other users,
// which end with [DB.CloseUncounted].
func (db *DB) WriteUncounted(rep []byte) error { return db.write(rep, db.flags) }

// CloseUncounted is [DB.Close] after WriteUncounted: the next start counts the keys anew.
func (db *DB) CloseUncounted() error {
	db.counts.partial.Store(true)
	return db.Close()
}

// Sequence returns the sequence number of the last write.
func (r *ReadOnly) Sequence() uint64 { return r.rocks.LatestSequence() }
