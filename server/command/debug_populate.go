package command

import (
	"bytes"
	"strconv"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
)

// populated is how many bytes DEBUG POPULATE commits at once, about.
const populated = 1 << 20

// debugPopulate makes keys with Redis's names and values: value:<number>, cut off or filled up with zeros to the
// size, if one is given. It is not one write: many keys take many commits. It ends early when the client is gone.
func debugPopulate(c *Ctx) error {
	if c.NoBlock { // EXEC holds locks that the commits of DEBUG POPULATE would wait for
		return engine.NewError("ERR", "DEBUG POPULATE isn't allowed in transactions")
	}
	count, ok := ParseInt(c.Args[2])
	if !ok || count < 0 {
		return ErrNotPositive
	}
	prefix, size := []byte("key"), int64(0)
	if len(c.Args) > 3 {
		prefix = c.Args[3]
	}
	if len(c.Args) > 4 {
		if size, ok = ParseInt(c.Args[4]); !ok || size < 0 {
			return ErrNotPositive
		}
		if size > c.Srv.Settings.MaxBulk() {
			return str.ErrTooLong
		}
	}
	ns, each := c.Tx.Namespace(), 64+int64(len(prefix))+size
	many := max(populated/each, 1)
	for first := int64(0); first < count; first += many {
		select {
		case <-c.Sess.Control.Done():
			return nil
		default:
		}
		var names [][]byte
		for n := first; n < min(first+many, count); n++ {
			names = append(names, strconv.AppendInt(append(bytes.Clone(prefix), ':'), n, 10))
		}
		err := c.Srv.DB.Update(ns, names, func(tx *engine.Tx) error {
			for i, name := range names {
				value := strconv.AppendInt([]byte("value:"), first+int64(i), 10)
				if size > 0 {
					value = append(make([]byte, 0, size), value[:min(int64(len(value)), size)]...)[:size]
				}
				if _, err := str.Set(tx, name, value, str.SetOptions{IfMissing: true}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return replyOK(c, nil)
}
