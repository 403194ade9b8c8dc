// Package destination receives slots that another node moves here.
package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// Import receives slots: it is the destination of a migration. The source controls it by CLUSTER IMPORT.
//
//	        Start                  Succeed
//	none --------------> start ---------------> success
//	                       |  ^                    |
//	          Fail, or the |  | Start              | Fail
//	        source is gone v  |                    v
//	                      error <------------------+
//
// Each arrow to start and to error deletes the keys of the slots. If the process is killed in between, the next process
// deletes them: a file contains the range as long as that may be necessary.
//
// There is one import at a time, and it belongs to the connection that has begun it. When another connection begins an
// import of the same slots, the first connection is closed, and has ended before anything is deleted. So none of its
// commands can run later.
type Import struct {
	opt Options
	mu  sync.Mutex // held while the state changes, for the whole duration of the change
	now atomic.Pointer[Importing]
	// marks: the file may exist.
	marks bool
	files *engine.Ingest // records sent for table files; nil = none
}

// Importing is the state of an import.
type Importing struct {
	slots cf.SlotRange
	state State
	link  Link // of the source; only in the state start
	// began is the number of the connection that has begun the import. Commands of older connections, which a network
	// may have delayed, are ignored.
	began int64
	// verify: before clients may use the slots, the source is asked whether it redirects clients to this node.
	verify bool
	// flushes is the number of flushes of the database when the import began.
	flushes uint64
}

// State is the state of an import, with the name that CLUSTER INFO shows.
type State string

// The states.
const (
	None    State = "none"
	Started State = "start"
	Success State = "success"
	Failed  State = "error"
)

// Link is the connection of a source. Links of the same connection are equal.
type Link interface {
	// ID returns the number of the connection. Newer connections have greater numbers.
	ID() int64
	// Close ends the connection, without waiting.
	Close()
	// Ended is closed when no command of the connection is running any more, before [Import.LinkEnded] is called.
	Ended() <-chan struct{}
}

// Slots changes how this node treats commands for slots. The Map of package cluster implements it.
type Slots interface {
	// Importing lets only the migrator use slots of other nodes.
	Importing(r cf.SlotRange)
	// ImportEnded undoes Importing.
	ImportEnded(r cf.SlotRange)
	// Imported lets all clients use slots of other nodes, also after a restart of the server.
	Imported(r cf.SlotRange) error
	// Arrived is like Imported, but no client may use the slots before the end of the migration is confirmed.
	Arrived(r cf.SlotRange) error
	Confirmed(r cf.SlotRange)
	// Revoked undoes Imported and Arrived.
	Revoked(r cf.SlotRange)
}

// Options are what an Import needs of the server.
type Options struct {
	DB    *engine.DB
	Slots Slots
	// Has reports whether a slot belongs to this node or was imported.
	Has func(slot uint16) bool
	// IsReplica reports whether the server follows a master. A replica deletes nothing.
	IsReplica func() bool
	Path      string // of the file; its directory exists
	// Record stores the slots of an import in the database for as long as the file exists, so that a replica that becomes
	// the master deletes what came of them; "" = none. Recorded returns what Record has stored. Both may be nil.
	Record   func(slots string) error
	Recorded func() (slots string, err error)
	// FilesDir is a directory for table files, which is deleted; "" = table files are refused. Followed reports whether
	// a replica or a backup reads the log. Suspend disconnects them until resume is called. Ingested is called after
	// keys have arrived that clients may be waiting for. With FilesDir, all three functions must be set.
	FilesDir string
	Followed func() bool
	Suspend  func() (resume func())
	Ingested func()
	Log      *zap.Logger
}

// linkEnds is the max time to wait for the end of a connection whose import another connection begins again.
const linkEnds = 5 * time.Second

// New returns the destination of migrations, and deletes what an earlier process has left.
func New(opt Options) (*Import, error) {
	i := &Import{opt: opt}
	i.now.Store(&Importing{state: None})
	if err := i.dropFiles(); err != nil {
		return i, err
	}
	return i, i.recover()
}

// Now returns the current state, which changes with each step. It does not wait.
func (i *Import) Now() *Importing { return i.now.Load() }

// Status returns the state of the current or the last import. It does not wait.
func (i *Import) Status() (cf.SlotRange, State) {
	now := i.now.Load()
	return now.slots, now.state
}

// Start begins an import. It deletes the keys that the slots have here.
func (i *Import) Start(link Link, r cf.SlotRange) error {
	if err := i.closeFormer(link, r); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch now := i.now.Load(); {
	case now.stale(link, r):
		return errStale
	case now.state == Started && (now.slots != r || now.link != link):
		return errImporting(now.slots)
	}
	i.opt.Slots.ImportEnded(r)
	i.opt.Slots.Revoked(r)
	if err := i.dropFiles(); err != nil {
		return err
	}
	if err := i.dropRecorded(); err != nil {
		return err
	}
	if err := i.mark(r); err != nil {
		return err
	}
	stage.Step(stage.Importing)
	if err := i.delete(r); err != nil {
		return fmt.Errorf("deleting what was there of the slots: %w", err)
	}
	i.opt.Slots.Importing(r)
	i.now.Store(&Importing{slots: r, state: Started, link: link, began: link.ID(), flushes: i.opt.DB.Flushes()})
	i.opt.Log.Info("importing slots", zap.Stringer("slots", r))
	stage.Step(stage.ImportBegun)
	return nil
}

var errStale = engine.NewError("ERR", "a newer connection has begun an import of the slots")

// stale reports whether a connection is older than the import of the same slots.
func (n *Importing) stale(link Link, r cf.SlotRange) bool {
	return n.state != None && link.ID() < n.began && r.First <= n.slots.Last && n.slots.First <= r.Last
}

func errImporting(r cf.SlotRange) error {
	return engine.NewError("ERR", "only one importing job is allowed, current importing: "+r.String())
}

// closeFormer closes the other connection that imports the same slots.
func (i *Import) closeFormer(link Link, r cf.SlotRange) error {
	former := i.now.Load()
	if former.state != Started || former.slots != r || former.link == link || former.stale(link, r) {
		return nil
	}
	former.link.Close()
	select {
	case <-former.link.Ended():
		i.LinkEnded(former.link)
		return nil
	case <-time.After(linkEnds):
		return errImporting(r)
	}
}

// Succeed ends an import: from now on all clients may use the slots. A source asks by this command what has become of
// an import when its connection was cut, when it was restarted, or when a replica has become the master. After an error
// the slots are not here, and will not be before the next import.
func (i *Import) Succeed(link Link, r cf.SlotRange) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.has(r) {
		return nil // an earlier process may have imported them
	}
	if err := i.expects(r); err != nil {
		return err
	}
	now := i.now.Load()
	switch {
	case now.stale(link, r):
		return errStale
	case now.state == Started && now.link != link:
		now.link.Close()
		if err := i.fail(); err != nil {
			return err
		}
		return errImportOver
	case now.state != Started:
		return errImportOver
	}
	if i.files != nil {
		return engine.NewError("ERR", "the records for table files were not ingested")
	}
	// FLUSHALL has deleted a part of what the source has sent. The source still has everything.
	if i.opt.DB.Flushes() != now.flushes {
		return errors.Join(errFlushed, i.fail())
	}
	stage.Step(stage.Imported)
	imported := i.opt.Slots.Imported
	if now.verify {
		imported = i.opt.Slots.Arrived
	}
	if err := imported(r); err != nil {
		// Without Revoked the slots would be deleted at the next start.
		i.opt.Slots.Revoked(r)
		return errors.Join(fmt.Errorf("recording that the slots were imported: %w", err), i.fail())
	}
	stage.Step(stage.ImportedKept)
	i.unmark()
	i.now.Store(&Importing{slots: r, state: Success, began: now.began})
	i.opt.Log.Info("imported slots", zap.Stringer("slots", r))
	stage.Step(stage.ImportEnded)
	return nil
}

var errFlushed = engine.NewError("ERR", "the keys of the destination were flushed during the import")

var errImportOver = engine.NewError("ERR", "the import of the slots has ended")

// Verify makes the end of the import wait for the source, see package migration.
func (i *Import) Verify(link Link, r cf.SlotRange) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := *i.now.Load()
	if now.state != Started || now.link != link || now.slots != r {
		return errImportOver
	}
	now.verify = true
	i.now.Store(&now)
	return nil
}

// Confirm is called when the source says that it redirects clients to this node.
func (i *Import) Confirm(link Link, r cf.SlotRange) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.now.Load(); now.state != Success || now.slots != r || now.began != link.ID() {
		return errImportOver
	}
	i.opt.Slots.Confirmed(r)
	return nil
}

// Void deletes slots that have arrived but that the source has kept. asOf is the state of the import before the source
// was asked: the answer about an earlier import does not apply to a later one, which may have succeeded meanwhile.
func (i *Import) Void(r cf.SlotRange, asOf *Importing) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now.Load()
	if now != asOf || now.state == Started || !i.has(r) {
		return nil // another import has begun, or they are ours
	}
	i.now.Store(&Importing{slots: r, state: Success, began: now.began})
	return i.fail()
}

// has reports whether all slots of a range belong to this node or were imported.
func (i *Import) has(r cf.SlotRange) bool {
	for slot := range r.All() {
		if !i.opt.Has(slot) {
			return false
		}
	}
	return true
}

// Fail ends an import and deletes the keys that have arrived. It also applies after Succeed: the source has not
// received the reply.
func (i *Import) Fail(link Link, r cf.SlotRange) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now.Load().state == None && i.has(r) { // an earlier process has imported them
		i.now.Store(&Importing{slots: r, state: Success, began: link.ID()})
	}
	if err := i.expects(r); err != nil {
		return err
	}
	switch now := i.now.Load(); {
	case now.stale(link, r):
		return errStale
	case now.state == Failed:
		return nil
	}
	return i.fail()
}

func (i *Import) expects(r cf.SlotRange) error {
	now := i.now.Load()
	if now.state != None && now.slots == r {
		return nil
	}
	is := "-1"
	if now.state != None {
		is = now.slots.String()
	}
	return engine.NewError("ERR", fmt.Sprintf("mismatch slot, importing slot(s): %s, but got: %s", is, r))
}

// delete deletes the keys of slots, except those of slots that now belong to this node. mu must be held.
func (i *Import) delete(r cf.SlotRange) error {
	for first := int(r.First); first <= int(r.Last); first++ {
		last := first
		for ; last <= int(r.Last) && !i.opt.Has(uint16(last)); last++ {
		}
		if last == first {
			continue
		}
		void := cf.SlotRange{First: uint16(first), Last: uint16(last - 1)}
		if err := i.opt.DB.DeleteSlots(void); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// fail ends the import without success. mu must be held.
func (i *Import) fail() error {
	now := i.now.Load()
	r := now.slots
	i.now.Store(&Importing{slots: r, state: Failed, began: now.began})
	i.opt.Slots.ImportEnded(r)
	i.opt.Slots.Revoked(r)
	i.opt.Log.Warn("slots were not imported", zap.Stringer("slots", r))
	if err := i.dropFiles(); err != nil {
		i.opt.Log.Error("table files of an import were not removed", zap.Error(err))
	}
	if i.opt.IsReplica() {
		i.unmark() // the keys are the master's now
		return nil
	}
	if err := i.mark(r); err != nil { // Succeed has removed the mark
		return err
	}
	stage.Step(stage.ImportVoid)
	if err := i.delete(r); err != nil {
		return fmt.Errorf("deleting what came of the slots: %w", err)
	}
	i.unmark()
	return nil
}

// LinkEnded is called for every connection that has begun an import, after its last command.
func (i *Import) LinkEnded(link Link) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now.Load()
	if now.state != Started || now.link != link {
		return
	}
	i.opt.Log.Warn("the source of an import is gone", zap.Stringer("slots", now.slots))
	if err := i.fail(); err != nil {
		i.opt.Log.Error("cleaning up after an import failed", zap.Error(err))
	}
}

// Cancel ends the import because of a change of the topology, if wanted returns true. It does not wait.
func (i *Import) Cancel(wanted func(r cf.SlotRange) bool) {
	if now := i.now.Load(); now.state == Started && wanted(now.slots) {
		now.link.Close() // LinkEnded does the rest
	}
}

// mark writes to the disk that the slots may hold invalid keys.
func (i *Import) mark(r cf.SlotRange) error {
	if i.opt.Path == "" {
		return nil
	}
	if err := durable.Replace(i.opt.Path, []byte(r.String()+"\n"), 0o600); err != nil {
		return err
	}
	i.marks = true
	if i.opt.Record == nil {
		return nil
	}
	return i.opt.Record(r.String())
}

// unmark removes the file of mark. If the file stays, the next process deletes the keys of slots that no node serves
// there.
func (i *Import) unmark() {
	if i.opt.Path == "" || !i.marks {
		return
	}
	if err := os.Remove(i.opt.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.opt.Log.Error("the mark of an import was not removed", zap.Error(err))
		return
	}
	i.marks = false
	if i.opt.Record == nil || i.opt.IsReplica() {
		return
	}
	if err := i.opt.Record(""); err != nil {
		i.opt.Log.Error("the record of an import was not deleted", zap.Error(err))
	}
}

// Promoted is called when the server has become a master: it deletes what came of an import of the former master. The
// topology must have taken over what that one has recorded of imported slots.
func (i *Import) Promoted() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.dropRecorded(); err != nil {
		i.opt.Log.Error("cleaning up after an import of the former master failed", zap.Error(err))
	}
}

// dropRecorded deletes what came of a recorded import, unless it is the current one. mu must be held.
func (i *Import) dropRecorded() error {
	if i.opt.Recorded == nil || i.opt.IsReplica() || i.now.Load().state == Started {
		return nil
	}
	text, err := i.opt.Recorded()
	if err != nil || text == "" {
		return err
	}
	r, err := cf.ParseSlotRange(text)
	if err != nil {
		return err
	}
	i.opt.Log.Warn("an import has not ended: deleting what came", zap.Stringer("slots", r))
	if err := i.delete(r); err != nil {
		return err
	}
	return i.opt.Record("")
}

// recover deletes the keys of unserved slots that an earlier process has left.
func (i *Import) recover() error {
	if i.opt.Path == "" {
		return nil
	}
	text, err := os.ReadFile(i.opt.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	i.marks = true
	r, err := cf.ParseSlotRange(string(text))
	if err != nil {
		i.opt.Log.Error("the mark of an import cannot be read", zap.String("file", i.opt.Path), zap.Error(err))
		return nil
	}
	if !i.opt.IsReplica() {
		i.opt.Log.Warn("an import has not ended: deleting what came", zap.Stringer("slots", r))
		if err := i.delete(r); err != nil {
			return err
		}
	}
	i.unmark()
	return nil
}
