package slotdata

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

var ErrFlushed = errors.New("the keys were flushed")

// Changes are one batch of the log, restricted to the migrated slots.
type Changes struct {
	Rep          []byte
	Skip         int    // the first records, which the snapshot includes
	Seq          uint64 // sequence number of the current record of Each
	lower, upper []byte
}

// Each calls f for the records of the slots, and for log data: puts, deletes, and range deletes of subkeys, which are
// cut to the slots. A range delete of metadata records is ErrFlushed: it comes from FLUSHALL, FLUSHDB, or a similar
// command of another program.
func (c *Changes) Each(f func(rec *batch.Record) error) error {
	r, err := batch.NewReader(c.Rep)
	if err != nil {
		return err
	}
	n := 0
	for {
		rec, ok := r.Next()
		if !ok {
			return r.Err()
		}
		if rec.Kind.Counted() {
			c.Seq = r.Sequence() + uint64(n)
			if n++; n <= c.Skip {
				continue
			}
		}
		if rec.Kind == batch.LogData {
			if id, err := cf.ParseLogData(rec.Value); err != nil || id != nil {
				continue
			}
			if err := f(&rec); err != nil {
				return err
			}
			continue
		}
		switch rec.Family {
		case cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream:
		default:
			continue
		}
		switch rec.Kind {
		case batch.Put, batch.Delete, batch.SingleDelete:
			if bytes.Compare(rec.Key, c.lower) < 0 || bytes.Compare(rec.Key, c.upper) >= 0 {
				continue
			}
			if rec.Kind == batch.SingleDelete {
				rec.Kind = batch.Delete
			}
		case batch.DeleteRange:
			if bytes.Compare(rec.Key, c.lower) < 0 {
				rec.Key = c.lower
			}
			if bytes.Compare(rec.Value, c.upper) > 0 {
				rec.Value = c.upper
			}
			if bytes.Compare(rec.Key, rec.Value) >= 0 {
				continue
			}
			if rec.Family == cf.Metadata {
				return ErrFlushed
			}
		case batch.Noop:
			continue
		default:
			return fmt.Errorf("the log holds a record of the kind %q", rec.Kind)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
}

// Bounds sets the range of slots.
func (c *Changes) Bounds(slots cf.SlotRange) { c.lower, c.upper = engine.SlotBounds(slots) }
