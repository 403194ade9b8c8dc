package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/logfile"
	"github.com/basaltdb/basalt/engine/wal"
)

// The engine's part of replication: the batches as they are written, the replication id in the batches, and the logs
// that are kept until replicas have read them.

// Follow sets a function that is called with every write batch, in RocksDB's representation, after the batch is in the
// log and before its writers are told. seq is the sequence number of the first record of the batch; the number inside
// rep is not set. f = nil ends the calls.
//
// The function must be quick and must not keep or change rep. Several goroutines may call it at once, so the order of
// the calls need not be that of the sequence numbers. A write that has begun before Follow may never reach the
// function; such a write is in the log when Follow returns, or the function is called with it.
func (db *DB) Follow(f func(seq uint64, rep []byte)) {
	if f == nil {
		db.follower.Store(nil)
		return
	}
	db.follower.Store(&f)
}

// SetReplicationID sets the id that ends every batch as log data, "r <id>", from now on (use-rsid-psync of Kvrocks); ""
// = none. A replica adds no id: the batches of its master have the master's id.
func (db *DB) SetReplicationID(id string) {
	db.newHistory.Store(nil)
	db.setReplicationID(id)
}

func (db *DB) setReplicationID(id string) {
	if id == "" {
		db.replicationID.Store(nil)
		return
	}
	b := cf.AppendLogReplicationID(nil, id)
	db.replicationID.Store(&b)
}

// endBatch appends the log data that ends a batch.
func (db *DB) endBatch(b *batch.Builder) {
	db.markBitOrder(b)
	if id := db.replicationID.Load(); id != nil {
		b.LogData(*id)
	}
}

// BeginHistory is SetReplicationID with an id that is also stored in the database: at the next commit, in a batch right
// before it. Until then nothing is written, so a master that restarts and becomes a replica before its first write
// still ends with the id of its last write.
func (db *DB) BeginHistory(id string) {
	db.setReplicationID(id)
	db.newHistory.Store(&id)
}

// storeHistory writes the id that BeginHistory has left. In a replica only a commit of its master writes it.
func (db *DB) storeHistory(ofMaster bool) error {
	db.storingHistory.Lock()
	defer db.storingHistory.Unlock()
	id := db.newHistory.Load()
	if id == nil {
		return nil
	}
	if db.replica.locked.Load() && !ofMaster {
		return ErrReplica
	}
	var b batch.Builder
	b.Put(cf.Propagate, []byte(cf.PropagateReplicationID), []byte(*id))
	db.endBatch(&b)
	if err := db.write(b.Bytes(), db.flags); err != nil {
		return err
	}
	db.newHistory.CompareAndSwap(id, nil)
	return nil
}

// KeepLogs keeps the logs that hold sequence numbers from seq on from being deleted for their age. RocksDB goes by the
// modification times of the logs, so KeepLogs sets these to the present. The limit on the total size of the logs still
// applies. KeepLogs must be called again every [DB.KeepLogsEvery].
func (db *DB) KeepLogs(seq uint64) error {
	if db.walTTL <= 0 {
		return nil
	}
	return renewLogs(db.dir, db.walTTL/4, func(path string, number uint64) bool {
		first, ok := firstSequence(path, number)
		return ok && first <= seq
	})
}

// renewLogs sets the modification times of logs that are older than limit to the present, from the newest log to the
// one for which last returns true; and those of the future, which a clock has left that was set back: RocksDB subtracts
// without a sign, and would delete them as too old.
func renewLogs(dbDir string, limit time.Duration, last func(path string, number uint64) bool) error {
	now := time.Now()
	for _, dir := range []string{dbDir, filepath.Join(dbDir, "archive")} { // newest first
		numbers, err := wal.Numbers(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, n := range slices.Backward(numbers) {
			path := filepath.Join(dir, wal.Name(n))
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // archived or deleted meanwhile
			}
			if err != nil {
				return err
			}
			if age := now.Sub(info.ModTime()); age >= limit || age < 0 {
				if err := os.Chtimes(path, time.Time{}, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			if last(path, n) {
				return nil
			}
		}
	}
	return nil
}

// KeepLogsEvery returns the interval between calls of KeepLogs; 0 = no calls are needed.
func (db *DB) KeepLogsEvery() time.Duration {
	if db.walTTL <= 0 {
		return 0
	}
	return min(max(db.walTTL/8, 100*time.Millisecond), time.Minute)
}

// firstSequence returns the sequence number of the first write in a log; ok is false when the number is unknown.
func firstSequence(path string, number uint64) (seq uint64, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	s := logfile.NewScanner(bufio.NewReaderSize(f, 4<<10), number)
	if !s.Next() || s.Compressed || len(s.Record()) < batch.HeaderLen {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.Record()), true
}
