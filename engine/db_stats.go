package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
)

// LevelStats is a level of a family's LSM tree, with what flushes and compactions into it have done since the start.
type LevelStats struct {
	Level             int // -1 = the sum of all levels
	Files, Compacting int64
	Bytes             int64
	Score             float64 // a compaction is due from 1 on
	// WriteAmp is how many bytes were written for each byte that came from above.
	WriteAmp      float64
	Read, Written int64 // bytes; of level 0, written by flushes
	Compactions   int64
	Seconds       float64 // of compactions
	KeysMerged    int64   // entries that compactions have dropped
}

// Levels returns the levels of a family that have files or have had compactions, level 0 first, and their sum.
//
// The source is the map property rocksdb.cfstats, which has entries like "compaction.L0.NumFiles" and
// "compaction.Sum.WriteGB"; numbers have six decimals, so bytes are exact to about a KiB.
func (db *DB) Levels(id cf.ID) (levels []LevelStats, sum LevelStats) {
	entries := db.rocks.MapProperty(db.fam[id], "rocksdb.cfstats")
	read := func(name string, level int) (l LevelStats, ok bool) {
		num := func(field string) float64 {
			f, err := strconv.ParseFloat(entries["compaction."+name+"."+field], 64)
			ok = ok || err == nil
			return f
		}
		const gib = 1 << 30
		return LevelStats{Level: level,
			Files: int64(num("NumFiles")), Compacting: int64(num("CompactedFiles")), Bytes: int64(num("SizeBytes")),
			Score: num("Score"), WriteAmp: num("WriteAmp"),
			Read: int64(num("ReadGB") * gib), Written: int64(num("WriteGB") * gib),
			Compactions: int64(num("CompCount")), Seconds: num("CompSec"),
			KeysMerged: int64(num("KeyDrop"))}, ok
	}
	for level := range maxLevels {
		if l, ok := read("L"+strconv.Itoa(level), level); ok {
			levels = append(levels, l)
		}
	}
	sum, _ = read("Sum", -1)
	return levels, sum
}

// maxLevels is more levels than a family has.
const maxLevels = 16

// WALFiles returns how many files the write-ahead log has, and their bytes: those that RocksDB needs itself, and those
// that it keeps for replicas.
func (db *DB) WALFiles() (files int, bytes int64) {
	for _, dir := range []string{db.dir, filepath.Join(db.dir, "archive")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // no log was archived yet
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".log") {
				if info, err := e.Info(); err == nil { // else it was deleted meanwhile
					files++
					bytes += info.Size()
				}
			}
		}
	}
	return files, bytes
}

// RecordCacheLookups returns how many readers have found their record in the record cache, and how many have not; 0
// without such a cache.
func (db *DB) RecordCacheLookups() (hits, misses uint64) {
	if db.cache == nil {
		return 0, 0
	}
	return db.cache.Lookups()
}

// WatchedKeys returns how many keys are watched, see [Watch]. A key that several watches have counts once.
func (db *DB) WatchedKeys() (n int) {
	for i := range db.watches.shards {
		s := &db.watches.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}

// ExpiredKeys returns how many keys of all namespaces have expired since the start, whether their records are deleted
// or not. It counts up to a second late, and less when the clock is set back.
func (db *DB) ExpiredKeys() (n int64) {
	if db.isClosing() {
		return 0
	}
	now, steady := time.Now().UnixMilli(), time.Since(db.counts.origin)
	db.counts.mu.RLock()
	defer db.counts.mu.RUnlock()
	for _, c := range db.counts.byNS {
		n += c.State(now, steady).Expired
	}
	return n
}
