package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/engine/wal"
)

// How [Open] treats a damaged database: it refuses everything but an incomplete tail of the newest log, with a line
// that names the file, the loss, and how to open the database nevertheless. docs/recovery.md is for the operator.

// Force says what [Open] does when the write-ahead log lacks writes.
type Force int

// The ways to open a database whose log lacks writes.
const (
	// RefuseLoss: do not open; the error is [ErrDamaged].
	RefuseLoss Force = iota
	// PointInTime: open with all writes before the damage and with none after it. The database is as it was at one
	// moment, except for column families that were written to table files later.
	PointInTime
	// SkipDamaged: open with all readable writes. Writes after the damage may depend on lost ones.
	SkipDamaged
)

// forceNames are the values of the setting force-recovery.
var forceNames = []string{"no", "point-in-time", "skip-damaged"}

// ParseForce returns the meaning of a value of the setting force-recovery.
func ParseForce(name string) Force { return Force(max(0, slices.Index(forceNames, name))) }

// ErrDamaged: files of the database are damaged or missing, and opening it would lose their content.
var ErrDamaged = errors.New("the database is damaged")

// recovery is the damage that was found at opening, and since.
type recovery struct {
	force   Force
	last    uint64 // the last write in the logs, 0 = not known
	found   atomic.Pointer[found]
	noting  sync.Mutex // held while the list of logs is written
	dropped atomic.Int64
	logs    chan struct{} // a log was begun

	corrupt struct {
		reads  atomic.Int64
		mu     sync.Mutex
		logged time.Time
		text   string
	}
}

// found is the damage that was found at opening. It is replaced as a whole, never changed.
type found struct {
	tailBytes int64
	tailFile  string // the log with the tail; empty = no tail
	lost      string // what a forced opening has lost
}

// Recovery is what [DB.Recovery] returns.
type Recovery struct {
	TailBytes    int64  // of an incomplete tail of the newest log, which was left out
	DroppedBytes int64  // of logs that RocksDB reports as left out
	Lost         string // what a forced opening has lost; empty = nothing
	CorruptReads int64  // calls of RocksDB that met damaged files since the database was opened
}

// Recovery returns the damage that was found when the database was opened, and since.
func (db *DB) Recovery() Recovery {
	r := &db.recovery
	f := r.found.Load()
	return Recovery{f.tailBytes, r.dropped.Load(), f.lost, r.corrupt.reads.Load()}
}

// familiesToOpen returns the known families in their order, followed by the unknown families of an existing database.
func familiesToOpen(dir string, force Force) ([]string, error) {
	names := slices.Clone(cf.Names[:])
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return nil, fmt.Errorf("%s is a symbolic link to a directory that does not exist", dir)
		}
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
		if err := noCurrent(dir); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if n := e.Name(); !leftBehind(dir, n) {
				return nil, fmt.Errorf("%w: %s holds %s and no database", ErrNotDatabase, dir, n)
			}
		}
		return names, nil
	}
	m, err := manifest.Read(dir)
	if errors.Is(err, manifest.ErrNewer) {
		return nil, fmt.Errorf("%w; this version reads what RocksDB 7.8 reads", err)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; restore the directory from a backup: docs/recovery.md", ErrDamaged, err)
	}
	if force == RefuseLoss && m.Cut(dir) {
		return nil, fmt.Errorf("%w: %s ends in the middle of an entry, and later ones are missing; restore the directory "+
			"from a backup: docs/recovery.md", ErrDamaged, filepath.Join(dir, m.Name))
	}
	have := m.Families()
	if !slices.Contains(have, cf.Metadata.String()) && !(len(have) == 1 && len(m.Tables()) == 0 && noData(dir)) {
		return nil, fmt.Errorf("%w: the database in %s has the column families %s", ErrNotDatabase, dir,
			strings.Join(have, ", "))
	}
	for _, n := range have {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names, nil
}

// noCurrent returns an error if dir, which lacks CURRENT, holds table files or logs of RocksDB.
func noCurrent(dir string) error {
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	logs, _ := filepath.Glob(filepath.Join(dir, "[0-9]*.log"))
	if len(tables)+len(logs) == 0 {
		return nil
	}
	missing, hint := "CURRENT, which names the MANIFEST, is", ""
	switch manifests, _ := filepath.Glob(filepath.Join(dir, "MANIFEST-*")); len(manifests) {
	case 0:
		missing = "CURRENT and the MANIFEST are"
	case 1:
		hint = fmt.Sprintf(" or, if nothing else is missing, put %s and a newline into a new CURRENT",
			filepath.Base(manifests[0]))
	}
	return fmt.Errorf("%w: %s missing in %s; restore the directory from a backup%s: docs/recovery.md", ErrDamaged, missing,
		dir, hint)
}

// leftBehind reports whether a file may be left by RocksDB when it fails, or is killed, before it has created the
// database. The first MANIFEST has the number 1. IDENTITY and CURRENT are renamed from 000000.dbtmp and 000001.dbtmp.
func leftBehind(dir, name string) bool {
	if name == "archive" {
		logs, err := os.ReadDir(filepath.Join(dir, name))
		return err == nil && len(logs) == 0
	}
	return slices.Contains([]string{"LOCK", "LOG", "IDENTITY", "MANIFEST-000001"}, name) ||
		strings.HasSuffix(name, ".dbtmp") || strings.HasPrefix(name, "LOG.old") || strings.HasPrefix(name, "OPTIONS-")
}

// noData reports whether dir holds no table file, and the logs in it are empty. A database so, with only the default
// family, is one whose creation was interrupted. One with table files has a MANIFEST that was cut off.
func noData(dir string) bool {
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	if len(tables) > 0 {
		return false
	}
	logs, err := filepath.Glob(filepath.Join(dir, "[0-9]*.log"))
	for _, l := range logs {
		info, e := os.Stat(l)
		if e != nil || info.Size() > 0 {
			return false
		}
	}
	return err == nil
}

// prepareFiles checks the MANIFEST and the logs. It refuses ([ErrDamaged]) or repairs files that RocksDB would not
// read, or would read with losses. The directory must have been claimed.
func (db *DB) prepareFiles(o *Options) error {
	db.recovery.force = o.Force
	db.recovery.logs = make(chan struct{}, 1)
	db.recovery.found.Store(&found{})
	if _, err := os.Stat(filepath.Join(o.Dir, "CURRENT")); err != nil {
		return nil // a new database
	}
	m, err := manifest.Read(o.Dir)
	if err != nil {
		return err
	}
	if !m.Readable() {
		if m, err = db.makeReadable(o.Dir); err != nil {
			return err
		}
	}
	r, err := checkLogs(o.Dir, m, o.DisableWAL)
	if err != nil {
		return err
	}
	if r.Loss != nil {
		return db.forceOpen(o, r)
	}
	if db.recovery.last = r.Last; r.Tail != nil {
		db.recovery.found.Store(&found{tailBytes: r.TailBytes, tailFile: r.Tail.File})
		db.log.Warn("the newest log ends with an incomplete record, never acknowledged or not synced, which is left out",
			zap.String("file", r.Tail.File), zap.Int64("offset", r.Tail.Offset), zap.Int64("bytes", r.TailBytes),
			zap.String("reason", r.Tail.Reason))
	}
	if most := o.MaxBatchBytes; most > 0 && int64(r.Largest) > most {
		db.log.Warn("the log has a write batch that is larger than this server may write: recovering it takes about four "+
			"times its size in memory; if the system kills the process, start once with more",
			zap.Int("bytes", r.Largest), zap.Int64("limit", most))
	}
	return nil
}

// makeReadable replaces the MANIFEST with one that RocksDB 7.8 reads.
func (db *DB) makeReadable(dir string) (*manifest.Manifest, error) {
	unlock, err := lockFiles(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := manifest.Read(dir) // again: another process may have had the directory before it was locked
	if err != nil || m.Readable() {
		return m, err
	}
	kept, err := m.MakeReadable(dir)
	if err != nil {
		return nil, err
	}
	db.log.Info("the MANIFEST of a newer RocksDB was replaced by one that RocksDB 7.8 reads as well; the old one is kept",
		zap.String("kept", kept))
	return manifest.Read(dir)
}

// forceOpen refuses logs that lack writes, or prepares the logs as o.Force says. It keeps the originals under other
// names.
func (db *DB) forceOpen(o *Options, r *wal.Report) error {
	what := r.Loss.String()
	if more := r.Losses - 1; more > 0 {
		what += fmt.Sprintf("; there are %d more damaged places", more)
	}
	if o.Force == RefuseLoss {
		return fmt.Errorf("%w: %s; restore the file, or start once with --force-recovery point-in-time (gives up all writes "+
			"from there on) or --force-recovery skip-damaged (gives up what cannot be read): docs/recovery.md",
			ErrDamaged, filepath.Join(o.Dir, what))
	}
	unlock, err := lockFiles(o.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	kept, err := r.Keep(o.Dir)
	if err != nil {
		return err
	}
	lost := what
	if o.Force == PointInTime {
		if err := r.Cut(o.Dir); err != nil {
			return err
		}
		if r.Loss.After > 0 {
			lost += "; these were given up"
		}
	}
	db.recovery.found.Store(&found{lost: lost})
	db.log.Error("force-recovery: the database is opened without the writes that are lost",
		zap.String("lost", lost), zap.String("how", forceNames[o.Force]), zap.Strings("kept", kept))
	return nil
}

// skipDamaged reports whether RocksDB must skip damaged parts of the logs.
func (db *DB) skipDamaged() bool {
	return db.recovery.force == SkipDamaged && db.recovery.found.Load().lost != ""
}

// openError translates an error of RocksDB's open.
func openError(dir string, err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "While lock file") || strings.Contains(text, "lock hold by current process"):
		return fmt.Errorf("%w: %s", ErrLocked, dir)
	case strings.Contains(text, "unsupported format_version"):
		return fmt.Errorf("open %s: %w", newerTable(dir), err)
	case strings.HasPrefix(text, "Corruption"):
		return fmt.Errorf("%w: %s: %w; basalt check lists what is damaged: docs/recovery.md", ErrDamaged, lackingTable(dir),
			err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// lackingTable describes the first table file that is missing or has another size than the MANIFEST says: RocksDB's
// error names a missing file by a name that no file has had, and of one that is too short neither name nor size.
func lackingTable(dir string) string {
	m, err := manifest.Read(dir)
	if err != nil {
		return dir
	}
	for _, t := range m.Tables() {
		path := filepath.Join(dir, t.Name())
		switch info, err := os.Stat(path); {
		case errors.Is(err, os.ErrNotExist):
			return path + " is missing"
		case err == nil && uint64(info.Size()) != t.Size:
			return fmt.Sprintf("%s has %d bytes instead of %d", path, info.Size(), t.Size)
		}
	}
	return dir
}

// newerTable describes the first table file whose format RocksDB 7.8 does not read: RocksDB's error does not name the
// file. A table file ends with u32 version and u64 magic number, little-endian (table/format.cc of RocksDB).
func newerTable(dir string) string {
	const (
		newest = 5
		magic  = 0x88e241b785f4cff7 // of block-based tables
	)
	files, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	for _, name := range files {
		var end [12]byte
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() >= int64(len(end)) {
			_, err = f.ReadAt(end[:], info.Size()-int64(len(end)))
			v := binary.LittleEndian.Uint32(end[:])
			if err == nil && binary.LittleEndian.Uint64(end[4:]) == magic && v > newest {
				f.Close()
				return fmt.Sprintf("%s: it has format_version %d, and this version reads up to %d; "+
					"let the server that wrote it compact the database with format_version %d", name, v, newest, newest)
			}
		}
		f.Close()
	}
	return dir
}

// checkRecovered compares what RocksDB has read with the content of the logs, and with what Close has saved. A MANIFEST
// that has lost whole entries is noticed only by the latter.
func (db *DB) checkRecovered(saved *keycount.Saved) {
	seq := db.rocks.LatestSequence()
	var lost string
	switch {
	case db.recovery.found.Load().lost != "":
		return // a forced start has said so
	case seq < db.recovery.last:
		lost = fmt.Sprintf("RocksDB has recovered to write %d, the logs hold %d", seq, db.recovery.last)
	case saved != nil && seq < saved.Sequence:
		lost = fmt.Sprintf("the database ends with write %d, and was closed with write %d", seq, saved.Sequence)
	default:
		return
	}
	db.recovery.found.Store(&found{tailBytes: db.recovery.found.Load().tailBytes, lost: lost})
	db.log.Error("writes were lost at the start", zap.String("lost", lost))
}

// onDropped notes that RocksDB has left out bytes of a log. It also reports an incomplete tail that consists of several
// blocks, which prepareFiles has reported already.
func (db *DB) onDropped(text string, bytes int) {
	f := db.recovery.found.Load()
	if f.tailFile != "" && strings.Contains(text, f.tailFile) && int64(bytes) <= f.tailBytes {
		return
	}
	db.recovery.dropped.Add(int64(bytes))
	db.log.Error("RocksDB has left out a part of a log", zap.String("what", text), zap.Int("bytes", bytes))
}

// IsDamage reports whether an error comes from a file of the database that is damaged, missing or cannot be read.
func IsDamage(err error) bool {
	e, ok := errors.AsType[*rocks.Error](err)
	return ok && e.Damage
}

// corruptLogEvery is the min time between two log lines about the same damage.
const corruptLogEvery = 10 * time.Second

// onCorrupt notes that a call has met a damaged or missing file. The caller of RocksDB gets the error as well.
func (db *DB) onCorrupt(text string) {
	if (strings.Contains(text, ".sst") || strings.Contains(text, ".blob")) && !strings.Contains(text, db.dir) {
		return // of another database of this process
	}
	c := &db.recovery.corrupt
	n := c.reads.Add(1)
	c.mu.Lock()
	log := text != c.text || time.Since(c.logged) >= corruptLogEvery
	if log {
		c.text, c.logged = text, time.Now()
	}
	c.mu.Unlock()
	if log {
		db.log.Error("a file of the database is damaged or cannot be read: docs/recovery.md", zap.String("error", text),
			zap.Int64("reads", n))
	}
}

// noteLogs writes the list of logs, which the next start compares with the files that exist (see [wal.List]).
func (db *DB) noteLogs(closed bool) {
	db.recovery.noting.Lock()
	defer db.recovery.noting.Unlock()
	if err := wal.WriteList(db.dir, closed); err != nil {
		db.log.Warn("the list of logs could not be written; a missing log may go unnoticed at the next start", zap.Error(err))
	}
}

// noteLoop writes the list of logs whenever a log was begun.
func (db *DB) noteLoop() {
	for {
		select {
		case <-db.closing:
			return
		case <-db.recovery.logs:
			db.noteLogs(false)
			db.log.Debug("the list of logs was written")
		}
	}
}
