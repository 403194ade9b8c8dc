package engine

import (
	"errors"
	"os"
)

// Copy is a database with the content that another one had at one moment, see [DB.OpenCopy]. Its owner alone uses it.
type Copy struct {
	*DB
	dir string
}

// The bounds of a copy, which is read once from its beginning to its end.
const (
	copyCache     = 16 << 20 // bytes of its block cache
	copyOpenFiles = 256      // table files that it keeps open
)

// OpenCopy copies the database into a directory on the same file system, in the main by hard links, and opens the copy
// for reading. A previous content of the directory is deleted.
//
// A snapshot is not enough for a reader that takes long: compaction filters do not heed snapshots, so a compaction
// drops the elements of a collection that was deleted after the snapshot. Besides, a snapshot would make the database
// keep old versions of records. A copy keeps files on the disk that the database has replaced meanwhile.
func (db *DB) OpenCopy(dir string) (*Copy, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := db.Checkpoint(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	o := db.options
	o.Dir, o.Force, o.Replica, o.ReplicationID = dir, RefuseLoss, true, ""
	o.RecordCache, o.DerivedState, o.PresenceCacheMax = -1, -1, 0
	r := *o.Rocks
	r.BlockCacheSize, r.RowCacheSize, r.DisableAutoCompactions = min(r.BlockCacheSize, copyCache), 0, true
	if r.MaxOpenFiles < 0 || r.MaxOpenFiles > copyOpenFiles {
		r.MaxOpenFiles = copyOpenFiles
	}
	o.Rocks = &r
	other, err := Open(o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Copy{other, dir}, nil
}

// Discard closes and deletes the copy.
func (c *Copy) Discard() error { return errors.Join(c.Close(), os.RemoveAll(c.dir)) }
