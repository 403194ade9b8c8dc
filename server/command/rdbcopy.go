package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/server/rdb/rdbfile"
)

// RDBCopy says what [RDBCopy.Write] writes.
type RDBCopy struct {
	Databases   int64 // redis-databases
	MaxString   int64 // longer strings and bitmaps are left out, as by DUMP
	NoKeys      bool
	NoLibraries bool // of functions
}

// RDBCopied tells what was written.
type RDBCopied struct {
	Keys, Libraries int64
	// Skipped counts the keys that were left out, or lack something in the copy, by reason.
	Skipped map[string]int64
	Example map[string]string // one such key for each reason
}

func (c *RDBCopied) skip(reason string, key []byte) {
	if c.Skipped[reason]++; c.Example[reason] == "" {
		c.Example[reason] = fmt.Sprintf("%.100q", key)
	}
}

// The reasons for leaving something out.
const (
	skippedExpiries = "expiries of the fields of a hash: the fields are written without them"
	skippedType     = "type %s: it has no form in an RDB file"
	skippedSize     = "the value is too large, see proto-max-bulk-len"
)

// Write writes the databases as an RDB file that Redis 7.0 and later load. Nobody may change db meanwhile. Of a
// collection that is larger than a part of the file, only the part is in memory. After an error of w, or the end of the
// context, Write returns soon; the file is incomplete then.
func (o RDBCopy) Write(ctx context.Context, db *engine.DB, w io.Writer) (RDBCopied, error) {
	c := &rdbCopier{o: o, ctx: ctx, db: db, w: rdbfile.New(w, rdbfile.Version), keys: db.NewTx(), values: db.NewTx()}
	c.done.Skipped, c.done.Example = map[string]int64{}, map[string]string{}
	err := c.write()
	return c.done, err
}

type rdbCopier struct {
	o    RDBCopy
	ctx  context.Context
	db   *engine.DB
	w    *rdbfile.Writer
	done RDBCopied
	// Two transactions, because what one has read is in memory until it ends: keys lasts as long as a database, values
	// as long as a key.
	keys, values *engine.Tx
}

func (c *rdbCopier) write() error {
	if !c.o.NoLibraries {
		if err := c.libraries(); err != nil {
			return err
		}
	}
	for n := int64(0); !c.o.NoKeys && n < max(c.o.Databases, 1); n++ {
		if err := c.database(int(n)); err != nil {
			return fmt.Errorf("database %d: %w", n, err)
		}
	}
	return c.w.End()
}

// libraries writes the libraries of functions.
func (c *rdbCopier) libraries() error {
	c.keys.Begin(cf.DefaultNamespace)
	defer c.keys.Release()
	it := c.keys.Iter(cf.Propagate, engine.IterOptions{Prefix: []byte(cf.PropagateLibrary)})
	defer it.Close()
	for it.Next() {
		c.done.Libraries++
		c.w.Function(it.Value())
	}
	return it.Err()
}

// database writes the keys of a database.
func (c *rdbCopier) database(n int) error {
	ns := cf.DatabaseNamespace(n)
	c.keys.Begin(ns)
	defer c.keys.Release()
	prefix := cf.AppendNSPrefix(nil, ns)
	it := c.keys.Iter(cf.Metadata, engine.IterOptions{Prefix: prefix})
	defer it.Close()
	slot := 0 // bytes of a slot before each key
	if c.db.Slots() {
		slot = 2
	}
	for first := true; it.Next(); {
		if err := errors.Join(c.ctx.Err(), c.w.Err()); err != nil {
			return err
		}
		if len(it.Key()) < slot {
			return fmt.Errorf("key %q: %w", it.Key(), cf.ErrCorrupt)
		}
		if first && n > 0 {
			c.w.Select(uint64(n))
		}
		first = false
		key := it.Key()[slot:]
		if err := c.key(ns, key, it.Value()); err != nil {
			return fmt.Errorf("key %.100q: %w", key, err)
		}
	}
	return it.Err()
}

// key writes a key with the given metadata record.
func (c *rdbCopier) key(ns string, key, record []byte) error {
	rec := engine.Record{Exists: true}
	var err error
	if rec.Meta, rec.Tail, err = cf.DecodeMeta(record); err != nil {
		return err
	}
	tx := c.values
	tx.Begin(ns)
	defer tx.Release()
	switch rec.Type {
	case cf.TypeString, cf.TypeBitmap, cf.TypeHyperLogLog, cf.TypeList, cf.TypeSet, cf.TypeHash, cf.TypeZSet,
		cf.TypeStream:
	default:
		if rec.Live(tx.Now()) {
			c.done.skip(fmt.Sprintf(skippedType, rec.Type), key)
		}
		return nil
	}
	if !rec.Live(tx.Now()) {
		return nil
	}
	begun := false
	pass := func(part []byte) bool {
		switch {
		case begun:
			c.w.Part(part)
		default:
			c.w.Key(key, part, int64(rec.Expire))
			begun = true
		}
		if c.w.Err() != nil || c.ctx.Err() != nil {
			tx.StopReading()
			return false
		}
		return true
	}
	d := dumper{limit: c.o.MaxString, sink: pass, persistent: true}
	err = d.value(tx, key, &rec)
	switch {
	case d.full && begun:
		return errors.Join(c.ctx.Err(), c.w.Err())
	case errors.Is(err, bitmap.ErrTooLong), err == nil && d.full && rec.Type != cf.TypeHash:
		c.done.skip(skippedSize, key)
		return nil
	case err != nil || d.full: // a hash whose fields have all expired
		return err
	}
	if d.lost {
		c.done.skip(skippedExpiries, key)
	}
	pass(d.b)
	c.done.Keys++
	return nil
}
