// Package bulkload takes keys as table files, in a server that is not a node of a cluster: those of a directory (SST
// LOAD), and those that it makes of the records of a client, basalt import:
//
//	importer                                     server
//	_ingest BEGIN                        ----->  refuses what package bulkload cannot do as commands do it
//	_ingest RECORDS batch ...            ----->  checks the records, writes table files
//	_ingest END                          ----->  the keys appear, all at once
//	_ingest BEGIN ...
//
// A key replaces the key of its name, whatever its type. Clients are treated as after a command that replaces all keys:
// transactions that watch keys fail, client-side caches are emptied, and blocked clients look again.
package bulkload

import (
	"errors"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/ingeststep"
	"github.com/basaltdb/basalt/server/command"
)

// Options are what a Loads needs.
type Options struct {
	DB  *engine.DB
	Dir string // for table files; it is deleted
	Log *zap.Logger

	Databases func() int64
	// Notifying reports whether clients get events of keys, Paused whether clients may not write now.
	Notifying, Paused func() bool
	// Indexed reports whether there are search indexes, in which the keys would be missing.
	Indexed func() bool
	// Followed reports whether somebody needs the log, in which the keys are not. Suspend cuts off those who read it until
	// resume is called. Came is called when keys have come.
	Followed func() bool
	Suspend  func() (resume func())
	Came     func()
}

// The reasons to refuse keys as table files. The client sends commands then.
var (
	errFollowed  = engine.NewError("ERR", "table files are not taken while replicas or backups follow this server")
	errNotifying = engine.NewError("ERR", "table files are not taken while notify-keyspace-events is set")
	errIndexed   = engine.NewError("ERR", "table files are not taken while there are search indexes")
	errUser      = engine.NewError("ERR", "table files are taken from users without restrictions only")
	errBusy      = engine.NewError("ERR", "another client sends table files")
	errNotBegun  = engine.NewError("ERR", "no table files have been begun")
)

var errPaused = errors.New("clients are paused")

// Loads are the table files that clients send, one client at a time.
type Loads struct {
	opt Options

	mu    sync.Mutex
	owner *command.Session // nil = none
	load  *engine.Ingest
	open  bool // between BEGIN and END
}

// New makes a Loads and deletes what a killed process has left.
func New(o Options) *Loads {
	l := &Loads{opt: o}
	l.removed(os.RemoveAll(o.Dir))
	return l
}

func (l *Loads) removed(err error) {
	if err != nil {
		l.opt.Log.Warn("the directory of table files was not removed", zap.Error(err))
	}
}

// Ingest is _ingest. records is a write batch for IngestRecords. Within a family the keys of the batches ascend, and a
// collection comes with all its elements between BEGIN and END.
func (l *Loads) Ingest(sess *command.Session, step command.IngestStep, records []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step == command.IngestBegin {
		err := l.begin(sess)
		ingeststep.Reached(ingeststep.Begun)
		return err
	}
	if l.owner != sess || !l.open {
		return errNotBegun
	}
	if step == command.IngestRecords {
		err := l.load.Add(records)
		ingeststep.Reached(ingeststep.Records)
		return err
	}
	l.open = false
	ingeststep.Reached(ingeststep.All)
	err := l.commit(sess.Control.Done(), l.load.Commit)
	if err != nil {
		l.removed(l.drop())
	}
	ingeststep.Reached(ingeststep.Committed)
	return err
}

// may returns the reason to refuse all table files.
func (l *Loads) may(sess *command.Session) error {
	switch {
	case sess.Account != nil && !sess.Account.User().Unrestricted():
		return errUser
	case l.opt.Indexed():
		return errIndexed
	case l.opt.Followed():
		return errFollowed
	}
	return nil
}

func (l *Loads) begin(sess *command.Session) error {
	switch {
	case l.owner != nil && l.owner != sess:
		return errBusy
	case l.opt.Notifying():
		return errNotifying
	}
	if err := l.may(sess); err != nil {
		return err
	}
	if l.open { // what has come since the last BEGIN is dropped
		if err := l.drop(); err != nil {
			return err
		}
	}
	if l.load == nil {
		has := func(ns string) bool {
			n, ok := cf.NamespaceDatabase(ns)
			return ok && int64(n) < max(l.opt.Databases(), 1)
		}
		load, err := l.opt.DB.NewLoad(l.opt.Dir, has, l.mayCommit, sess.Control.Done())
		if err != nil {
			return err
		}
		l.load = load
	}
	if l.owner == nil {
		l.owner = sess
		sess.Control.OnEnd(l.end)
	}
	l.open = true
	return nil
}

// mayCommit is called when all locks are held.
func (l *Loads) mayCommit() error {
	if l.opt.Paused() {
		return errPaused
	}
	return nil
}

// pausePoll is how often a paused client looks whether the pause has ended.
const pausePoll = 20 * time.Millisecond

// commit brings the keys into the database when clients may write. Whoever reads the log may go on until then.
func (l *Loads) commit(done <-chan struct{}, bring func() error) error {
	for {
		err := errPaused
		if !l.opt.Paused() {
			err = l.commitNow(bring)
		}
		if !errors.Is(err, errPaused) {
			return err
		}
		ingeststep.Reached(ingeststep.Paused)
		select {
		case <-done:
			return err
		case <-time.After(pausePoll):
		}
	}
}

func (l *Loads) commitNow(bring func() error) error {
	resume := l.opt.Suspend()
	defer resume()
	err := bring()
	if err == nil {
		l.opt.Came()
	}
	return err
}

// end is called when the client's connection has ended.
func (l *Loads) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.open = nil, false
	l.removed(l.drop())
}

func (l *Loads) drop() error {
	if l.load == nil {
		return nil
	}
	load := l.load
	l.load = nil
	return load.Close()
}
