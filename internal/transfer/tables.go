package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

// tables sends keys to a server as RocksDB's records, which the server writes to table files, see package bulkload.
// That saves the server its log, its memtables, and most of the work for each key. Keys are collected in memory and
// appear in the server a chunk at a time. While one chunk is sent, the next one is collected.
//
// A server refuses table files if their effect would differ from that of commands. Some values are always sent as
// commands: those of types that need a database to make their records, and collections in several parts.
type tables struct {
	m       *importer
	c       *resp.Conn
	records records
	sorter  *engine.Sorter // collects
	spare   *engine.Sorter // nil while it is sent
	sent    chan sentChunk // the result of sending; has room for one
	limit   int
	first   int64 // keys that were imported before
	keys    bool  // sorter holds some

	committed int64 // how many keys of the file the server has
	commands  bool  // were sent since the last chunk
	err       error // of a chunk
}

// sentChunk is a chunk that was sent. keys are those of the file up to its end.
type sentChunk struct {
	sorter *engine.Sorter
	keys   int64
	err    error
}

// tablesFrom is the size from which an RDB file goes by table files. For less the server would drop its caches, and
// write its memtables, for little. The standard input, whose size is not known, goes by commands: were its table files
// refused, it could not be read again. Tests lower it.
var tablesFrom int64 = 16 << 20

const (
	tablesBatch  = 1 << 20
	tablesWindow = 8 // batches without a reply
)

var errTablesRefused = errors.New("the server takes no more table files")

// sortedRecords is a sink: the server counts the keys.
type sortedRecords struct{ *engine.Sorter }

func (sortedRecords) Counted(string, uint64) {}

// newTables returns nil when the server takes no table files.
func (m *importer) newTables(ctx context.Context) (*tables, error) {
	c, err := Dial(context.WithoutCancel(ctx), *m.o.Server)
	if err != nil {
		return nil, err
	}
	if _, err := c.Do("_ingest", "BEGIN"); err != nil {
		c.Close()
		if _, ok := errors.AsType[resp.ReplyError](err); ok {
			err = nil
		}
		return nil, err
	}
	limit := max(m.o.Memory/3, 1<<20) // two chunks, and sorting takes some memory of its own
	t := &tables{m: m, c: c, sorter: engine.NewSorter(limit), spare: engine.NewSorter(limit), limit: limit,
		sent: make(chan sentChunk, 1), first: m.result.Keys}
	t.records.to = sortedRecords{t.sorter}
	return t, nil
}

// takes reports whether a key is sent as records.
func (t *tables) takes(i *rdb.Item) bool {
	if i.Part > 0 || i.More {
		return false
	}
	switch i.Value.Kind {
	case rdb.String:
		return !isHLL(i.Value.String)
	case rdb.List, rdb.Set, rdb.ZSet, rdb.Hash:
		return true
	}
	return false
}

// put collects a key that ends at an offset of the file.
func (t *tables) put(i *rdb.Item, end int64) error {
	if err := t.records.put(i, t.m.now); err != nil {
		return err
	}
	t.keys = true
	if t.sorter.Len() < t.limit {
		return nil
	}
	return t.ship(end)
}

// ship begins to send what was collected up to an offset of the file. The commands before it must have been answered,
// so that the position is right when the chunk is in the server.
func (t *tables) ship(end int64) error {
	if err := t.answered(); err != nil {
		return err
	}
	if err := t.wait(); err != nil {
		return err
	}
	chunk, file, db := sentChunk{sorter: t.sorter, keys: t.m.result.Keys - t.first}, t.m.file, t.m.db
	t.sorter, t.spare, t.keys = t.spare, nil, false
	t.records.to = sortedRecords{t.sorter}
	go func() {
		if chunk.err = t.send(chunk.sorter); chunk.err == nil {
			t.place(file, end, db)
		}
		chunk.sorter.Reset()
		t.sent <- chunk
	}()
	return nil
}

// answered waits until all commands are answered.
func (t *tables) answered() error {
	if t.commands {
		if err := t.m.pipe.Sync(); err != nil {
			return err
		}
		t.commands = false
	}
	return t.m.failed()
}

// place says that the server has everything up to an offset of the file.
func (t *tables) place(file int, end int64, db uint64) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.sent = end
	t.m.state.at(file, end, db)
}

// wait waits until the chunk under way is in the server.
func (t *tables) wait() error {
	if t.spare == nil {
		chunk := <-t.sent
		t.spare = chunk.sorter
		if t.err = chunk.err; t.err == nil {
			t.committed = chunk.keys
		}
	}
	return t.err
}

// finish sends the rest, up to an offset of the file, and waits until the server has it.
func (t *tables) finish(end int64) error {
	defer t.c.Close()
	if err := t.wait(); err != nil {
		return err
	}
	if t.keys {
		if err := t.ship(end); err != nil {
			return err
		}
		return t.wait()
	}
	if !t.commands {
		return nil
	}
	err := t.answered()
	if err == nil {
		t.place(t.m.file, end, t.m.db)
	}
	return err
}

// send sends a chunk.
func (t *tables) send(s *engine.Sorter) error {
	if _, err := t.c.Do("_ingest", "BEGIN"); err != nil {
		if _, ok := errors.AsType[resp.ReplyError](err); ok {
			return fmt.Errorf("%w: %w", errTablesRefused, err)
		}
		return err
	}
	var b []byte
	answered := func() error {
		r, err := t.c.Receive()
		if err != nil {
			return err
		}
		return r.Err()
	}
	err := s.Batches(tablesBatch, func(rep []byte) error {
		b = resp.AppendCommand(b[:0], []byte("_ingest"), []byte("RECORDS"), rep)
		if err := t.c.SendEncoded(b); err != nil {
			return err
		}
		if err := t.c.Flush(); err != nil {
			return err
		}
		if t.c.Pending() < tablesWindow {
			return nil
		}
		return answered()
	})
	for err == nil && t.c.Pending() > 0 {
		err = answered()
	}
	if err != nil {
		return err
	}
	_, err = t.c.Do("_ingest", "END")
	return err
}
