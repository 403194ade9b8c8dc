package engine

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
)

// expiringFamilies are the families whose records expire, metadata first: once the metadata record is gone, its subkeys
// are dropped at once, and not only after [compaction.Grace].
var expiringFamilies = [...]cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// FileProperties returns the input of the compaction checker: the properties of the table files of a family. Created is
// zero where RocksDB does not know it.
func (db *DB) FileProperties(id cf.ID) ([]compaction.FileProperties, error) {
	tables, err := db.TableProperties(id)
	if err != nil {
		return nil, err
	}
	files := make([]compaction.FileProperties, len(tables))
	for i, t := range tables {
		f := &files[i]
		f.Name, f.Level, f.RawBytes = t.File, t.Level, t.RawBytes
		if t.CreationTime != 0 {
			f.Created = time.Unix(int64(t.CreationTime), 0)
		}
		f.Expiries = compaction.ParseExpiries(t.Expiries)
		f.Ingested = string(t.Expiries) == compaction.ExpiriesUnknown
		f.SetCounters(map[string]string{
			compaction.PropTotalKeys: string(t.TotalKeys), compaction.PropDeletedKeys: string(t.DeletedKeys),
			compaction.PropStartKey: string(t.StartKey), compaction.PropStopKey: string(t.StopKey),
		})
	}
	return files, nil
}

// CompactExpired compacts the table files in which at least percent of the bytes have expired at a time in milliseconds
// since the epoch, one by one, each within its level. A file in level 0 goes to the next level, with the files there
// that overlap it. CompactExpired returns how many files it has compacted. It skips files that RocksDB is compacting
// already.
func (db *DB) CompactExpired(percent int, now int64) (n int, err error) {
	now = db.compactionTime(now)
	flushed, ingested := db.reclaimed.flushed.Load(), db.reclaimed.ingested.Load() // for all families of subkeys
	for _, id := range expiringFamilies {
		files, err := db.FileProperties(id)
		if err != nil {
			return n, err
		}
		due := compaction.PickExpired(id, files, percent, now)
		if id != cf.Metadata { // the loop above has dropped metadata records, before this load
			dropped := db.droppedSubkeys.Load()
			if picked := compaction.PickFlushed(files, percent, dropped-flushed); len(picked) > 0 {
				due = append(due, picked...)
				db.reclaimed.flushed.Store(dropped)
			}
			if picked := compaction.PickIngested(files, percent, dropped-ingested); len(picked) > 0 {
				due = append(due, picked...)
				db.reclaimed.ingested.Store(dropped)
			}
		}
		for _, f := range due {
			if db.interrupted.Load() || db.ending() {
				return n, nil
			}
			done, err := db.compactFile(id, f)
			if err != nil {
				return n, fmt.Errorf("family %s, file %s: %w", id, filepath.Base(f.Name), err)
			}
			if done {
				n++
			}
		}
	}
	return n, nil
}

// compactFile compacts one file. It reports false when the file no longer exists or is being compacted already.
func (db *DB) compactFile(id cf.ID, f compaction.FileProperties) (bool, error) {
	level := f.Level
	if level == 0 {
		base, ok := db.FamilyIntProperty(id, "rocksdb.base-level")
		if !ok {
			return false, nil
		}
		level = int(base)
	}
	db.compacting.Lock()
	defer db.compacting.Unlock()
	return db.rocks.CompactFiles(db.fam[id], []string{f.Name}, level, db.fileSize)
}
