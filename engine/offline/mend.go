package offline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

// Repair does what [Check] does, and repairs what it can: it corrects counts, reconciles the two orders of sorted sets,
// and drops what cannot be decoded or reached. It writes dropped records to a file before. If files are damaged, it
// rebuilds the database first, see [rebuild].
//
// The database must not be open. Repair opens it like a server, so logs with missing writes are refused.
func Repair(ctx context.Context, dir string, o Options) (*Report, error) {
	o.fill()
	if o.Dropped == "" {
		name := "basalt-dropped-" + o.Now().UTC().Format("20060102T150405") + ".jsonl"
		o.Dropped = filepath.Join(filepath.Dir(filepath.Clean(dir)), name)
	}
	began := o.Now()
	before, slots, err := filesFirst(ctx, dir, &o)
	if err != nil {
		return nil, err
	}
	if before.Found[BadFile] > 0 {
		aside, unread, err := rebuild(ctx, dir, &o)
		if err != nil {
			return nil, err
		}
		for i := range before.Problems {
			if p := &before.Problems[i]; p.Kind == BadFile {
				p.Repair = fmt.Sprintf("the database was made anew of what can be read, without %d ranges of keys; the old one "+
					"is %s",
					unread, filepath.Base(aside))
			}
		}
	}
	options := engine.DefaultRocksOptions()
	options.DisableAutoCompactions = true
	db, err := engine.Open(engine.Options{Dir: dir, Slots: slots, Rocks: options})
	if err != nil {
		return nil, err
	}
	r := db.ReadOnly()
	c := newChecker(ctx, r, &o)
	c.mend = &mender{db: db, r: r, path: o.Dropped}
	c.report.Files = before.Files
	for _, p := range before.Problems {
		c.report.add(p)
		o.Problem(&p)
	}
	err = errors.Join(c.records(), c.mend.close())
	r.Close()
	err = errors.Join(err, db.CloseUncounted())
	if c.mend.dropped > 0 {
		c.report.Dropped = o.Dropped
	}
	c.report.Seconds = o.Now().Sub(began).Seconds()
	return c.report, err
}

// filesFirst checks the files, without reporting problems yet.
func filesFirst(ctx context.Context, dir string, o *Options) (*Report, bool, error) {
	r, err := engine.OpenDamaged(dir)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	quiet := *o
	quiet.Problem = func(*Problem) {}
	c := newChecker(ctx, r, &quiet)
	return c.report, c.slots, c.files()
}

// mender changes a database. commit writes what put and drop have collected in one batch.
type mender struct {
	db      *engine.DB
	r       *engine.ReadOnly
	batch   batch.Builder
	path    string
	file    *os.File
	buf     *bufio.Writer
	dropped int64
	err     error
}

// dropped is a line of the file with the dropped records.
type dropped struct {
	Family string `json:"family"`
	Key    string `json:"key"`   // hexadecimal
	Value  string `json:"value"` // hexadecimal
	Reason string `json:"reason"`
}

// drop deletes a record after writing it to the file. It returns a description of what it did.
func (m *mender) drop(id cf.ID, key []byte, reason string) string {
	value, _, err := m.r.Get(id, key, nil)
	if err == nil {
		err = m.keep(dropped{id.String(), hex.EncodeToString(key), hex.EncodeToString(value), reason})
	}
	if err != nil {
		m.err = err
		return ""
	}
	m.batch.Delete(id, key)
	m.dropped++
	return "the record was dropped"
}

func (m *mender) keep(d dropped) error {
	if m.file == nil {
		f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("the file for what is dropped: %w", err)
		}
		m.file, m.buf = f, bufio.NewWriter(f)
	}
	return json.NewEncoder(m.buf).Encode(d)
}

// maxMend is the size in bytes from which a batch is written in parts.
const maxMend = 1 << 20

// commit writes the collected batch, after syncing the file with the dropped records.
func (m *mender) commit() error {
	if m.err != nil || m.batch.Count() == 0 {
		return m.err
	}
	if m.file != nil {
		if m.err = m.buf.Flush(); m.err == nil {
			m.err = m.file.Sync()
		}
	}
	if m.err == nil {
		m.err = m.db.WriteUncounted(m.batch.Bytes())
	}
	m.batch.Reset()
	return m.err
}

// moveTogether moves the elements of a list from the indexes [first, end) to consecutive indexes from first on.
func (m *mender) moveTogether(prefix []byte, first, end uint64) error {
	at := func(i uint64) []byte { return cf.AppendU64Sub(bytes.Clone(prefix), i) }
	cur := m.r.Cursor(cf.Default, engine.CursorOptions{Lower: at(first), Upper: at(end)})
	defer cur.Close()
	for next := first; cur.Next(); {
		i, err := cf.ParseU64Sub(cur.Key()[len(prefix):])
		if err != nil {
			continue
		}
		if i != next { // the target place is free, or its element was moved
			m.batch.Put(cf.Default, at(next), cur.Value())
			m.batch.Delete(cf.Default, cur.Key())
		}
		if next++; m.batch.Len() > maxMend {
			if err := m.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the file with the dropped records.
func (m *mender) close() error {
	if m.file == nil {
		return nil
	}
	return errors.Join(m.buf.Flush(), m.file.Sync(), m.file.Close())
}
