package command

import (
	"github.com/basaltdb/basalt/engine/stream"
)

var streamInfoCommands = []Spec{
	{Name: "xinfo", Arity: -2, Sub: []Spec{
		{Name: "consumers", Handler: xinfoConsumers, Arity: 4, Flags: ReadOnly},
		{Name: "groups", Handler: xinfoGroups, Arity: 3, Flags: ReadOnly},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
		{Name: "stream", Handler: xinfoStream, Arity: -3, Flags: ReadOnly},
	}},
}

// aboutStream returns the information about the stream that a subcommand of XINFO names.
func aboutStream(c *Ctx) (stream.Info, error) {
	i, found, err := stream.About(c.Tx, c.Args[2])
	if err == nil && !found {
		err = ErrNoSuchKey
	}
	return i, err
}

func xinfoConsumers(c *Ctx) error {
	if _, err := aboutStream(c); err != nil {
		return err
	}
	g, err := ofGroup(c, false)
	if err != nil {
		return err
	}
	list, err := g.Consumers()
	if err != nil {
		return err
	}
	w, now := c.Out, c.Tx.Clock()
	w.Array(len(list))
	for _, x := range list {
		w.Map(4)
		w.BulkString("name")
		w.Bulk(x.Name)
		intField(w, "pending", x.Pending)
		intField(w, "idle", max(now-int64(x.Seen), 0))
		w.BulkString("inactive")
		inactive := int64(-1)
		if x.Active != 0 {
			inactive = max(now-int64(x.Active), 0)
		}
		w.Int(inactive)
	}
	return nil
}

func xinfoGroups(c *Ctx) error {
	if _, err := aboutStream(c); err != nil {
		return err
	}
	list, err := stream.Groups(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	w := c.Out
	w.Array(len(list))
	for i := range list {
		g := &list[i]
		w.Map(6)
		w.BulkString("name")
		w.Bulk(g.Name)
		intField(w, "consumers", g.Consumers)
		intField(w, "pending", g.Pending)
		writeProgress(c, g)
	}
	return nil
}

// writeProgress writes three fields about how far a group has come.
func writeProgress(c *Ctx, g *stream.GroupInfo) {
	w := c.Out
	w.BulkString("last-delivered-id")
	writeID(w, g.LastDelivered)
	w.BulkString("entries-read")
	if g.EntriesRead == stream.UnknownReads {
		w.Null()
	} else {
		w.Int(g.EntriesRead)
	}
	w.BulkString("lag")
	if g.LagKnown {
		w.Int(g.Lag)
	} else {
		w.Null()
	}
}

// fullCount reads the options of XINFO STREAM.
func fullCount(c *Ctx) (full bool, count uint64, err error) {
	opts := c.Args[3:]
	switch {
	case len(opts) == 0:
		return false, 0, nil
	case len(opts) != 1 && len(opts) != 3 || !EqualFold(opts[0], "FULL") || len(opts) == 3 && !EqualFold(opts[1], "COUNT"):
		return false, 0, wrongSubcommand(c)
	case len(opts) == 1:
		return true, 10, nil
	}
	n, ok := ParseInt(opts[2])
	switch {
	case !ok:
		return false, 0, ErrNotInteger
	case n < 0:
		n = 10
	}
	return true, uint64(n), nil
}

func xinfoStream(c *Ctx) error {
	i, err := aboutStream(c)
	if err != nil {
		return err
	}
	full, count, err := fullCount(c)
	if err != nil {
		return err
	}
	idempotence, used, err := stream.AboutIdempotence(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	w, fields := c.Out, 10
	if full {
		fields--
	}
	if used { // clients of Redis 7 do not know these fields
		fields += 6
	}
	w.Map(fields)
	keys, nodes := i.Nodes()
	intField(w, "length", i.Length)
	intField(w, "radix-tree-keys", keys)
	intField(w, "radix-tree-nodes", nodes)
	w.BulkString("last-generated-id")
	writeID(w, i.LastGenerated)
	w.BulkString("max-deleted-entry-id")
	writeID(w, i.MaxDeleted)
	intField(w, "entries-added", i.EntriesAdded)
	w.BulkString("recorded-first-entry-id")
	writeID(w, i.First)
	if used {
		intField(w, "idmp-duration", idempotence.Duration)
		intField(w, "idmp-maxsize", idempotence.MaxSize)
		intField(w, "pids-tracked", idempotence.Producers)
		intField(w, "iids-tracked", idempotence.IIDs)
		intField(w, "iids-added", idempotence.Added)
		intField(w, "iids-duplicates", idempotence.Duplicates)
	}
	if full {
		return writeFull(c, count)
	}
	intField(w, "groups", i.Groups)
	w.BulkString("first-entry")
	if err := writeEdge(c, i.First, i.Last, false); err != nil {
		return err
	}
	w.BulkString("last-entry")
	return writeEdge(c, i.First, i.Last, true)
}

// writeEdge writes the first or last entry, or a null.
func writeEdge(c *Ctx, first, last stream.ID, reverse bool) error {
	found := false
	err := stream.Range(c.Tx, c.Args[2], stream.RangeOptions{From: first, To: last, Reverse: reverse, Count: 1},
		func(e *stream.Entry) {
			writeEntry(c.Out, e)
			found = true
		})
	if !found {
		c.Out.Null()
	}
	return err
}

// writeFull writes the entries and groups of XINFO STREAM FULL, at most count of each, or all with 0.
func writeFull(c *Ctx, count uint64) error {
	w := c.Out
	w.BulkString("entries")
	mark, n := w.Mark(), 0
	if err := stream.Range(c.Tx, c.Args[2], stream.RangeOptions{To: stream.MaxID, Count: count}, func(e *stream.Entry) {
		writeEntry(w, e)
		n++
	}); err != nil {
		return err
	}
	w.InsertArray(mark, n)
	groups, err := stream.Groups(c.Tx, c.Args[2])
	if err != nil {
		return err
	}
	w.BulkString("groups")
	w.Array(len(groups))
	for i := range groups {
		if err := writeFullGroup(c, &groups[i], count); err != nil {
			return err
		}
	}
	return nil
}

func writeFullGroup(c *Ctx, g *stream.GroupInfo, count uint64) error {
	consumers, err := g.Group.Consumers()
	if err != nil {
		return err
	}
	all, of, err := g.Group.PendingLists(consumers, count)
	if err != nil {
		return err
	}
	w := c.Out
	if g.Nacked > 0 { // clients of Redis 7 do not know the field
		w.Map(8)
	} else {
		w.Map(7)
	}
	w.BulkString("name")
	w.Bulk(g.Name)
	writeProgress(c, g)
	intField(w, "pel-count", g.Pending)
	if g.Nacked > 0 {
		intField(w, "nacked-count", g.Nacked)
	}
	w.BulkString("pending")
	w.Array(len(all))
	for _, p := range all {
		w.Array(4)
		writeID(w, p.ID)
		w.Bulk(p.Consumer)
		if p.Nacked {
			w.Int(0)
		} else {
			w.Int(int64(p.Delivered))
		}
		w.Int(int64(p.Deliveries))
	}
	w.BulkString("consumers")
	w.Array(len(consumers))
	for i, x := range consumers {
		w.Map(5)
		w.BulkString("name")
		w.Bulk(x.Name)
		intField(w, "seen-time", x.Seen)
		w.BulkString("active-time")
		if x.Active == 0 {
			w.Int(-1)
		} else {
			w.Int(int64(x.Active))
		}
		intField(w, "pel-count", x.Pending)
		w.BulkString("pending")
		w.Array(len(of[i]))
		for _, p := range of[i] {
			w.Array(3)
			writeID(w, p.ID)
			w.Int(int64(p.Delivered))
			w.Int(int64(p.Deliveries))
		}
	}
	return nil
}
