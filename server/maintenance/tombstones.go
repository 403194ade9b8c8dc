package maintenance

import (
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
)

// A deleted element leaves a tombstone, which every read of its collection passes until a compaction drops it. A
// memtable keeps them all: SMEMBERS of a set of 100 members, in which 400,000 came and went, took 41 ms, and 0.1 ms
// after a flush. So the memtables are flushed when reads pass many tombstones.
const (
	tombstonesEvery = time.Second
	// manyPassed is the number of hidden entries, most of them tombstones, that iterators pass in one period before
	// memtables are flushed. They take about 0.2 s.
	manyPassed = 2_000_000
	// manyDeleted is the min number of tombstones in a memtable that is flushed. Passing that many takes some 5 ms. With
	// fewer, a flush would make small files, and the tombstones that reads pass are elsewhere.
	manyDeleted = 50_000
)

// checkTombstones flushes memtables full of tombstones, in the background, if reads have passed many since the last
// call.
func (w *Work) checkTombstones(time.Time) {
	passed, _ := w.DB.Ticker("number.iter.skip")
	before := w.passed
	w.passed = passed
	if passed < before+manyPassed || w.flushing.Swap(true) {
		return
	}
	err := w.spawn(func() {
		defer w.flushing.Store(false)
		w.flushTombstones(passed - before)
	})
	if err != nil {
		w.flushing.Store(false)
	}
}

func (w *Work) flushTombstones(passed uint64) {
	for id := range cf.NumFamilies {
		deleted, _ := w.DB.FamilyIntProperty(cf.ID(id), "rocksdb.num-deletes-active-mem-table")
		if deleted < manyDeleted {
			continue
		}
		begin := time.Now()
		if err := w.DB.FlushMemtable(cf.ID(id)); err != nil {
			if !w.cutShort(err) {
				w.Log.Warn("flushing a memtable with many deleted keys", zap.Error(err))
			}
			return
		}
		w.Log.Info("flushed a memtable with many deleted keys, which reads passed", zap.Stringer("family", cf.ID(id)),
			zap.Uint64("deleted", deleted), zap.Uint64("passed", passed), zap.Duration("took", time.Since(begin)))
	}
}
