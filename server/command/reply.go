package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

// The reply functions return err, or write the reply and return nil.

func replyOK(c *Ctx, err error) error {
	if err == nil {
		c.Out.OK()
	}
	return err
}

func replyInt[T ~int | int64 | uint64](c *Ctx, n T, err error) error {
	if err == nil {
		c.Out.Int(int64(n))
	}
	return err
}

// count makes the handler of a command that replies with a number that f finds for its key.
func count[T ~int | int64 | uint64](f func(tx *engine.Tx, key []byte) (T, error)) Handler {
	return func(c *Ctx) error {
		n, err := f(c.Tx, c.Args[1])
		return replyInt(c, n, err)
	}
}

// countMembers makes the handler of a command that replies with how many of the members behind its key f has changed.
func countMembers(f func(tx *engine.Tx, key []byte, members [][]byte) (int, error)) Handler {
	return func(c *Ctx) error {
		n, err := f(c.Tx, c.Args[1], c.Args[2:])
		return replyInt(c, n, err)
	}
}

// replyBool writes 1 or 0.
func replyBool(c *Ctx, yes bool, err error) error { return replyInt(c, boolInt(yes), err) }

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func replyInts(c *Ctx, list []int64, err error) error {
	if err == nil {
		c.Out.Array(len(list))
		for _, n := range list {
			c.Out.Int(n)
		}
	}
	return err
}

func replyBools(c *Ctx, list []bool, err error) error {
	if err == nil {
		c.Out.Array(len(list))
		for _, yes := range list {
			c.Out.Int(boolInt(yes))
		}
	}
	return err
}

func replyBulk(c *Ctx, b []byte, err error) error {
	if err == nil {
		c.Out.Bulk(b)
	}
	return err
}

func replyString(c *Ctx, s string, err error) error {
	if err == nil {
		c.Out.BulkString(s)
	}
	return err
}

// replyVerbatim writes a text of several lines.
func replyVerbatim(c *Ctx, text string, err error) error {
	if err == nil {
		c.Out.Verbatim("txt", text)
	}
	return err
}

func replyBulkOrNull(c *Ctx, b []byte, found bool, err error) error {
	if err == nil {
		bulkOrNull(c, b, found)
	}
	return err
}

func bulkOrNull(c *Ctx, b []byte, found bool) {
	if found {
		c.Out.Bulk(b)
	} else {
		c.Out.Null()
	}
}

// replyValues writes an array of values, of which nil ones are null. The command must have read all that it needs.
func replyValues(c *Ctx, values [][]byte) error {
	c.Tx.ReadsDone()
	c.Out.Array(len(values))
	for _, v := range values {
		bulkOrNull(c, v, v != nil)
	}
	return nil
}

// replyPiece writes a piece of the dump of a filter, and the position of the next one.
func replyPiece(c *Ctx, next uint64, data []byte, err error) error {
	if err == nil {
		c.Out.Array(2)
		c.Out.Int(int64(next))
		c.Out.Bulk(data)
	}
	return err
}

type labelled struct {
	label string
	n     uint64
}

// replyCounts writes a map of labels to numbers.
func replyCounts(c *Ctx, fields []labelled) error {
	c.Out.Map(len(fields))
	for _, f := range fields {
		c.Out.SimpleString(f.label)
		c.Out.Int(int64(f.n))
	}
	return nil
}

func writeBulks(w *resp.Writer, list []string) {
	w.Array(len(list))
	for _, s := range list {
		w.BulkString(s)
	}
}

func writeBulkSet(w *resp.Writer, list []string) {
	w.Set(len(list))
	for _, s := range list {
		w.BulkString(s)
	}
}

// writeWords writes a set of simple strings.
func writeWords(w *resp.Writer, list []string) {
	w.Set(len(list))
	for _, s := range list {
		w.SimpleString(s)
	}
}

// intField and stringField write an element of a map.
func intField[T ~int | int64 | uint64](w *resp.Writer, name string, n T) {
	w.BulkString(name)
	w.Int(int64(n))
}

func stringField(w *resp.Writer, name, value string) {
	w.BulkString(name)
	w.BulkString(value)
}
