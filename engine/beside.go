package engine

import (
	"errors"
	"math/rand/v2"
	"os"

	"github.com/basaltdb/basalt/cf"
)

// Beside is a database that is to replace another one, see [DB.Replace].
type Beside struct {
	*DB
	dir string
}

// besideCache is the block cache of a database that is only written, in bytes.
const besideCache = 16 << 20

// OpenBeside creates an empty database of the same format in a directory on the same file system. A previous content of
// the directory is deleted. Only transactions that are [Tx.FromMaster] write to the database, and each key only once,
// so a blind write does not look up what it might replace. (That look-up made loading ten million keys take three times
// as long.) The database has no log: its writes are on the disk only when Finish has returned.
func (db *DB) OpenBeside(dir string) (*Beside, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	o := db.options
	o.Dir, o.Force, o.Replica, o.ReplicationID = dir, RefuseLoss, true, ""
	o.DisableWAL, o.Sync = true, false
	o.RecordCache, o.DerivedState = -1, -1
	r := *o.Rocks
	r.BlockCacheSize, r.RowCacheSize = min(r.BlockCacheSize, besideCache), 0
	o.Rocks = &r
	other, err := Open(o)
	if err != nil {
		return nil, err
	}
	other.fresh = true
	return &Beside{other, dir}, nil
}

// Finish writes everything to files and closes the database: its directory is ready for [DB.Replace].
func (b *Beside) Finish() error {
	err := b.padSequence()
	for id := range cf.ID(cf.NumFamilies) {
		if err == nil {
			err = b.FlushMemtable(id)
		}
	}
	return errors.Join(err, b.Close())
}

// Discard closes and deletes the database, unless Replace has moved it.
func (b *Beside) Discard() error {
	err := b.Close()
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// maxPadding bounds the number of records that padSequence writes.
const maxPadding = 1 << 16

// padSequence makes the sequence number random within bounds. For a replica that compares sequence numbers only, the
// last number of another copy of the same data must not look like the same history.
func (b *Beside) padSequence() error {
	tx := b.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	tx.FromMaster()
	for range 1 + rand.IntN(maxPadding) {
		tx.Delete(cf.PubSub, []byte{0})
	}
	return tx.Commit()
}
