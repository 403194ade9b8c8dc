package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/rdb"
)

var rdbCommands = []Spec{
	{Name: "rdb", Arity: -2, Sub: []Spec{
		{Name: "load", Handler: rdbLoad, Arity: -3,
			Flags: Write | DenyOOM | Admin | NoScript | NoMulti | Solo | AdminOnly},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

// The bounds of a piece, which is written in one transaction: its most keys, and the size of the write batch in bytes
// at which no further key is added.
const (
	pieceKeys  = 256
	pieceBytes = 1 << 20
)

// rdbLoad is Kvrocks's RDB LOAD path [NX] [DB n]. The keys are written in pieces, each with a commit of its own, so
// that other clients are not blocked; after an error the keys already written stay.
func rdbLoad(c *Ctx) error {
	l := loader{c: c}
	db := int64(0)
	o := options{args: c.Args[3:]}
	for o.more() {
		switch {
		case o.flag("NX", &l.keep):
		case o.int("DB", &db):
			o.check(db >= 0 && db <= math.MaxUint32, ErrNotInteger)
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	f, size, err := openRegular(string(c.Args[2]))
	if err != nil {
		return engine.NewError("ERR", "the RDB file cannot be opened: "+err.Error())
	}
	defer f.Close()
	file, err := rdb.NewFile(f, size, min(maxRestore, c.Tx.DB().MaxResultBytes()))
	if err == nil {
		err = l.load(file, uint64(db))
	}
	if err != nil {
		err = l.stopped(err)
		c.Srv.Debug.Log(fmt.Sprintf("RDB LOAD of %q has failed: %v", c.Args[2], err))
		return err
	}
	c.Srv.Debug.Log(fmt.Sprintf("RDB LOAD of %q: %d keys and %d libraries were loaded; %d keys had expired, "+
		"%d were kept as they were, %d were empty, %d belong to other nodes of the cluster",
		c.Args[2], l.done.keys, l.done.libraries, l.done.expired, l.done.kept, l.done.empty, l.done.elsewhere))
	return replyOK(c, nil)
}

// openRegular opens a file for reading and returns its length. It does not wait for the other end of a pipe.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// loader writes the contents of an RDB file.
type loader struct {
	c     *Ctx
	keep  bool // existing keys and libraries are not replaced
	items []*rdb.Item
	size  int64 // approximate size of their write batch
	done  loaded
}

// loaded counts the items of a file by their outcome.
type loaded struct {
	keys, libraries      int
	expired, kept, empty int // keys that were not loaded
	elsewhere            int // keys in slots of other nodes: not loaded either
}

// load writes the keys of a database, and all libraries of functions.
func (l *loader) load(file *rdb.File, db uint64) error {
	for {
		i, err := file.Next()
		switch {
		case err == io.EOF:
			return l.flush()
		case err != nil:
			if e := l.flush(); e != nil {
				return e
			}
			return err
		case i.Function != nil:
			err = l.library(i.Function)
		case i.DB != db:
		case i.Value == nil:
			l.done.empty++
		default:
			l.items = append(l.items, i)
			l.size += int64(len(i.Key)+recordSize) + batchSize(i.Value, len(i.Key))
			if len(l.items) == pieceKeys || l.size > pieceBytes {
				err = l.flush()
			}
		}
		if err != nil {
			return err
		}
	}
}

// flush writes the keys that were read. When several keys do not fit into one write batch, each key gets its own.
func (l *loader) flush() error {
	items := l.items
	l.items, l.size = nil, 0
	err := l.write(items)
	if !errors.Is(err, engine.ErrBatchSize) || len(items) == 1 {
		return err
	}
	for i := range items {
		if err := l.write(items[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// write writes keys in one transaction, up to the first key that fails.
func (l *loader) write(items []*rdb.Item) error {
	if len(items) == 0 {
		return nil
	}
	keys := make([][]byte, len(items))
	for n, i := range items {
		keys[n] = i.Key
	}
	done := l.done
	var failed error
	err := l.c.Sess.Control.Update(keys, false, func(tx *engine.Tx) error {
		for _, i := range items {
			mark := tx.Savepoint()
			if err := l.key(tx, i, &done); err != nil {
				failed = fmt.Errorf("key %.100q: %w", i.Key, err)
				return tx.Rollback(mark)
			}
		}
		return nil
	})
	if err != nil {
		if len(items) == 1 {
			return fmt.Errorf("key %.100q: %w", items[0].Key, err)
		}
		return err
	}
	l.done = done
	return failed
}

func (l *loader) key(tx *engine.Tx, i *rdb.Item, done *loaded) error {
	if i.Expires && i.Expire <= tx.Now() {
		done.expired++
		return nil
	}
	if topology := l.c.Srv.Cluster; topology != nil {
		err := topology.MayWrite(i.Key)
		if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == "TRYAGAIN" {
			return err
		}
		if err != nil {
			done.elsewhere++
			return nil
		}
	}
	if l.keep {
		old, err := tx.LoadHead(i.Key)
		if err != nil {
			return err
		}
		if old.Exists {
			done.kept++
			return nil
		}
	}
	if err := restoreKey(tx, i.Key, i.Value, i.Expire, l.c.Srv.Settings.MaxBulk()); err != nil {
		return err
	}
	done.keys++
	return nil
}

// library stores a library of functions.
func (l *loader) library(source []byte) error {
	err := l.c.Sess.Control.Update(nil, true, func(tx *engine.Tx) error {
		_, err := l.c.Srv.Scripts.LoadLibrary(tx, source, !l.keep)
		return err
	})
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == "" { // an error of Lua, whose text begins with the code
		code, text, _ := strings.Cut(e.Text, " ")
		err = engine.NewError(code, text)
	}
	var exists *LibraryExistsError
	switch {
	case l.keep && errors.As(err, &exists):
		return nil
	case err != nil:
		return fmt.Errorf("a library of functions: %w", err)
	}
	l.done.libraries++
	return nil
}

// stopped is the reply for an error: it says how many keys were loaded.
func (l *loader) stopped(err error) error {
	code := "ERR"
	if e, ok := errors.AsType[*engine.Error](err); ok {
		code = e.Code
	}
	return engine.NewError(code, fmt.Sprintf("%v; %d keys were loaded", err, l.done.keys))
}
