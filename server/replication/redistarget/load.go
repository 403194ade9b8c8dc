package redistarget

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/history"
	"github.com/basaltdb/basalt/server/replication/redislink"
)

// A full sync with a Redis master writes the RDB file to a second database beside the current one, and then replaces
// the current one by it. Clients see the old data until then, and an interrupted transfer changes nothing. One
// goroutine reads the file and another one writes, piece by piece.

// The bounds of a piece, which one transaction writes.
const (
	loadItems = 512
	loadBytes = 1 << 20
)

func (t *Target) Load() (redislink.Loader, error) {
	if err := t.o.Prepare(); err != nil {
		return nil, err
	}
	db, err := t.o.DB.OpenBeside(t.o.Dir)
	if err != nil {
		return nil, err
	}
	l := &load{o: &t.o, db: db, tx: db.NewTx(), pieces: make(chan []*rdb.Item, 4), failed: make(chan struct{})}
	if err := l.transaction(t.o.Commands.BeginLoad); err != nil {
		return nil, errors.Join(err, db.Discard())
	}
	l.writer.Go(l.write)
	return l, nil
}

// load is a [redislink.Loader]: a database under construction from an RDB file.
type load struct {
	o     *Options
	db    *engine.Beside
	piece []*rdb.Item
	bytes int
	ended bool // the writer has been told to end

	scripts [][]byte

	pieces chan []*rdb.Item
	writer sync.WaitGroup
	tx     *engine.Tx
	err    error         // of the writer; valid once failed is closed
	failed chan struct{} // closed when the writer has failed
}

func (r *load) Add(i *rdb.Item) error {
	if i.Function == nil && i.Value == nil {
		return nil // an empty collection
	}
	r.piece = append(r.piece, i)
	r.bytes += itemSize(i)
	if len(r.piece) < loadItems && r.bytes < loadBytes {
		return nil
	}
	return r.send()
}

// itemSize returns the approximate size of an item in bytes.
func itemSize(i *rdb.Item) int {
	size := len(i.Key) + len(i.Function)
	if v := i.Value; v != nil {
		size += len(v.String)
		for _, e := range v.Elems {
			size += len(e)
		}
		if v.Stream != nil {
			for _, e := range v.Stream.Entries {
				for _, f := range e.Fields {
					size += len(f)
				}
			}
		}
		if v.Cuckoo != nil {
			for _, f := range v.Cuckoo.Filters {
				size += len(f)
			}
		}
	}
	return size
}

// send passes the piece to the writer.
func (r *load) send() error {
	select {
	case <-r.failed:
		return r.err
	case r.pieces <- r.piece:
		r.piece, r.bytes = nil, 0
		return nil
	}
}

// write writes pieces until the last one.
func (r *load) write() {
	for piece := range r.pieces {
		if r.err == nil {
			if r.err = r.transaction(func(tx *engine.Tx) error { return r.items(tx, piece) }); r.err != nil {
				close(r.failed)
			}
		}
	}
}

// transaction runs f in a transaction and commits it.
func (r *load) transaction(f func(tx *engine.Tx) error) error {
	r.tx.Begin(cf.DefaultNamespace)
	defer r.tx.Release()
	r.tx.FromMaster()
	if err := f(r.tx); err != nil {
		return err
	}
	return r.tx.Commit()
}

// items writes items.
func (r *load) items(tx *engine.Tx, piece []*rdb.Item) error {
	commands := r.o.Commands
	db, ns := uint64(0), cf.DefaultNamespace
	for _, i := range piece {
		if i.Function != nil {
			if err := commands.StoreLibrary(tx, i.Function); err != nil {
				return fmt.Errorf("a library of functions: %w", err)
			}
			continue
		}
		if i.DB != db {
			var err error
			if ns, err = commands.Namespace(int(i.DB)); err != nil {
				return err
			}
			db = i.DB
			tx.SwitchNamespace(ns)
		}
		if err := commands.Restore(tx, i); err != nil {
			return fmt.Errorf("key %.100q of database %d: %w", i.Key, i.DB, err)
		}
	}
	return nil
}

func (r *load) Script(source []byte) error {
	r.scripts = append(r.scripts, slices.Clone(source)) // scripts are few
	return nil
}

// drain waits until the writer has ended.
func (r *load) drain() {
	if !r.ended {
		r.ended = true
		close(r.pieces)
		r.writer.Wait()
	}
}

func (r *load) End(s redislink.State) error {
	err := r.send()
	r.drain()
	if err = errors.Join(err, r.err); err != nil {
		return err
	}
	err = r.transaction(func(tx *engine.Tx) error {
		for _, source := range r.scripts {
			if err := r.o.Commands.StoreScript(tx, source); err != nil {
				return fmt.Errorf("a script: %w", err)
			}
		}
		putState(tx, s)
		if r.o.WithID() {
			tx.Put(cf.Propagate, []byte(cf.PropagateReplicationID), []byte(history.NewID()))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.db.Finish(); err != nil {
		return err
	}
	return r.o.Replace(r.o.Dir)
}

func (r *load) Abort() {
	r.drain()
	if err := r.db.Discard(); err != nil {
		r.o.Log.Error("removing the files of a full synchronisation failed", zap.Error(err))
	}
}
