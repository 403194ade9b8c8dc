// Package checkpoint makes the copy of the database that replicas fetch in a full sync.
package checkpoint

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// Files are the files of a checkpoint, or of none. All replicas that connect within some time get the same checkpoint.
// A replica that connects later, or that has had later writes, gets a new one, unless another replica is still
// fetching the old one and the log still reaches back to it. A checkpoint is deleted when no replica has fetched from
// it for idleFiles, and never while a replica is fetching.
type Files struct {
	dir string
	db  *engine.DB
	log *zap.Logger

	want  atomic.Uint64 // see Want
	lacks atomic.Uint64 // see Lacks

	mu    sync.Mutex
	names []string // nil = no checkpoint
	have  map[string]bool
	seq   uint64 // the checkpoint has all writes up to this one, and perhaps some later ones
	made  time.Time
	used  time.Time // the last time that a replica fetched
	users int       // connections that are fetching
}

const (
	// idleFiles is longer than the time that a replica needs between two requests, however slow its host.
	idleFiles = 30 * time.Second
	// nextFile is longer than a replica needs as a rule. One that needs longer fetches what it lacks of the next
	// checkpoint.
	nextFile = 2 * time.Second
)

// New deletes what an earlier process has left in dir, the directory of checkpoints; "" = no checkpoints can be made.
func New(db *engine.DB, log *zap.Logger, dir string) *Files {
	c := &Files{dir: dir, db: db, log: log}
	c.Remove()
	return c
}

// Want says that the next replica has had the writes up to a sequence number, which the database has: a checkpoint that
// lacks some of them would take the replica back in time.
func (c *Files) Want(seq uint64) { raise(&c.want, seq) }

// Lacks says that the log does not contain the write with a sequence number, perhaps because it is damaged there: a
// replica cannot go on from a checkpoint without that write.
func (c *Files) Lacks(seq uint64) { raise(&c.lacks, seq) }

func raise(n *atomic.Uint64, to uint64) {
	for old := n.Load(); old < to && !n.CompareAndSwap(old, to); old = n.Load() {
	}
}

// List returns the names of the files of a checkpoint. It makes one if necessary.
func (c *Files) List(shareFor time.Duration) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	share := now.Sub(c.made) <= shareFor || c.busy(now)
	if c.seq < c.want.Load() {
		share = c.users > 0 || now.Sub(c.used) <= nextFile
	}
	if c.names != nil && c.seq >= c.lacks.Load() && c.inLog() && share {
		c.used = now
		return c.names, nil
	}
	if err := c.drop(); err != nil {
		return nil, err
	}
	c.seq, c.have = c.db.LatestSequence(), map[string]bool{}
	if err := c.db.Checkpoint(c.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	for _, e := range entries {
		if e.Type().IsRegular() && proto.ValidName(e.Name()) {
			c.names, c.have[e.Name()] = append(c.names, e.Name()), true
		}
	}
	if at := slices.Index(c.names, "CURRENT"); at >= 0 { // last: a directory without it is not a database
		c.names = append(slices.Delete(c.names, at, at+1), "CURRENT")
	}
	c.made = time.Now()
	c.used = c.made
	c.log.Info("a checkpoint was made for replicas", zap.Int("files", len(c.names)), zap.Uint64("sequence", c.seq),
		zap.Duration("took", c.made.Sub(now)))
	return c.names, nil
}

// inLog reports whether the log contains the writes after the checkpoint. c.mu must be held.
func (c *Files) inLog() bool {
	if c.seq == c.db.LatestSequence() {
		return true
	}
	log, err := c.db.WAL(c.seq + 1)
	if err != nil {
		return false
	}
	defer log.Close()
	rep, _, err := log.Next()
	return err == nil && rep != nil
}

// busy reports whether a replica is fetching, or is about to. c.mu must be held.
func (c *Files) busy(now time.Time) bool { return c.users > 0 || now.Sub(c.used) <= idleFiles }

// drop deletes the checkpoint. c.mu must be held.
func (c *Files) drop() error {
	c.names, c.have = nil, nil
	if c.dir == "" {
		return errors.New("there is no directory for checkpoints")
	}
	return os.RemoveAll(c.dir)
}

// Remove deletes the checkpoint even while it is in use, and what an earlier process has left.
func (c *Files) Remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		return
	}
	c.want.Store(0)
	c.lacks.Store(0)
	if err := c.drop(); err != nil {
		c.log.Warn("the checkpoint for replicas was not deleted", zap.Error(err))
	}
}

// Expire deletes a checkpoint that no replica is fetching. It returns the sequence number from which the replicas that
// have fetched it need the log.
func (c *Files) Expire(now time.Time) (next uint64, deleted bool) {
	if !c.mu.TryLock() {
		return 0, false // one is being made
	}
	defer c.mu.Unlock()
	if c.names == nil || c.busy(now) {
		return 0, false
	}
	if err := c.drop(); err != nil {
		c.log.Warn("the checkpoint for replicas was not deleted", zap.Error(err))
	} else {
		c.log.Info("the checkpoint for replicas was deleted: no replica is fetching it")
	}
	return c.seq + 1, true
}

// Needs returns the sequence number from which replicas with the checkpoint need the log.
func (c *Files) Needs() uint64 {
	if !c.mu.TryLock() {
		return math.MaxUint64 // one is being made
	}
	defer c.mu.Unlock()
	if c.names == nil {
		return math.MaxUint64
	}
	return c.seq + 1
}

// Enter opens the files of names for a replica that fetches them.
func (c *Files) Enter(names []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		if !c.have[n] {
			return ErrNoFile
		}
	}
	c.users++
	return nil
}

// Open opens a file, between Enter and Leave.
func (c *Files) Open(name string) (*os.File, error) { return os.Open(filepath.Join(c.dir, name)) }

// Leave undoes Enter.
func (c *Files) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

// ErrNoFile is the reply to a request for a file that is not in the checkpoint.
const ErrNoFile proto.Error = "no such file in the checkpoint"
