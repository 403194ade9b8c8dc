package command

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/server/glob"
)

var scanCommands = []Spec{
	{Name: "keys", Handler: keysMatching, Arity: 2, Flags: ReadOnly},
	{Name: "scan", Handler: scan, Arity: -2, Flags: ReadOnly},
	{Name: "randomkey", Handler: randomKey, Arity: 1, Flags: ReadOnly},
}

func keysMatching(c *Ctx) error {
	pattern := glob.Compile(c.Args[1])
	mark, n := c.Out.Mark(), 0
	err := keys.Walk(c.Tx, keys.Range{Prefix: pattern.Prefix(), Exact: pattern.Literal()}, func(e *keys.Entry) bool {
		if e.Live && pattern.Match(e.Key) {
			c.Out.Bulk(e.Key)
			n++
		}
		return true
	})
	c.Out.InsertArray(mark, n)
	return err
}

// scan reads COUNT records per call, including the records of expired keys: the work of a call is bounded, and a call
// may return no keys although more exist.
func scan(c *Ctx) error {
	cur, err := parseCursor(c.Args[1])
	if err != nil {
		return err
	}
	o, err := parseScanOptions(c.Args[2:], cf.TypeNone)
	if err != nil {
		return err
	}
	r := keys.Range{From: cur.from(scanKeys, c.Tx.Namespace(), nil), Limit: o.limit()}
	if o.Match != nil {
		r.Prefix, r.Exact = o.Match.Prefix(), o.Match.Literal()
	}
	mark, n := c.Out.Mark(), 0
	var last []byte
	more, seen := false, int64(0)
	err = keys.Walk(c.Tx, r, func(e *keys.Entry) bool {
		if seen == o.Count {
			more = true
			return false
		}
		if seen++; seen == o.Count {
			last = bytes.Clone(e.Pos)
		}
		if e.Live && (o.Match == nil || o.Match.Match(e.Key)) && (!o.HasType || EqualFold(o.Type, e.Meta.Type.String())) {
			c.Out.Bulk(e.Key)
			n++
		}
		return true
	})
	if err != nil {
		return err
	}
	writeScan(c, mark, n, scanKeys, nil, last, more)
	return nil
}

func randomKey(c *Ctx) error {
	key, found, err := keys.Random(c.Tx)
	return replyBulkOrNull(c, key, found, err)
}
