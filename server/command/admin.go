package command

import (
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

var adminCommands = []Spec{
	{Name: "time", Handler: timeNow, Arity: 1, Flags: Loading | Stale | Fast},
	{Name: "dbsize", Handler: dbsize, Arity: -1, Flags: ReadOnly | Fast | Solo},
	{Name: "flushdb", Handler: flushDB, Arity: -1, Flags: Write | Solo | Exclusive},
	{Name: "flushall", Handler: flushAll, Arity: -1, Flags: Write | Solo | Exclusive | AdminOnly},
	{Name: "bgsave", Handler: bgsave, Arity: -1, Flags: Admin | NoScript | NoAsyncLoading | Solo | AdminOnly},
	{Name: "save", Handler: save, Arity: 1,
		Flags: Admin | NoScript | NoAsyncLoading | NoMulti | Solo | AdminOnly},
	{Name: "lastsave", Handler: lastSave, Arity: -1, Flags: Loading | Stale | Fast | Solo | AdminOnly},
	{Name: "flushmemtable", Handler: flushMemtable, Arity: -1, Flags: NoScript | Solo},
	{Name: "flushblockcache", Handler: flushBlockCache, Arity: 1, Flags: NoScript | Solo},
	{Name: "flushbackup", Handler: flushBackup, Arity: 1, Flags: Admin | NoScript | Solo | AdminOnly},
	{Name: "compact", Handler: compact, Arity: 1, Flags: NoScript | Solo},
	{Name: "shutdown", Handler: shutdown, Arity: -1,
		Flags: Admin | NoScript | Loading | Stale | NoMulti | AllowBusy | Solo | AdminOnly},
}

func timeNow(c *Ctx) error {
	now := c.Clock
	if now.IsZero() {
		now = time.Now()
	}
	c.Out.Array(2)
	c.Out.BulkInt(now.Unix())
	c.Out.BulkInt(int64(now.Nanosecond() / 1000))
	return nil
}

// dbsize replies with the number of keys; INFO says whether the number is exact. DBSIZE SCAN counts them in the
// background.
func dbsize(c *Ctx) error {
	switch {
	case len(c.Args) == 1:
		n, _ := c.Tx.CountKeys()
		c.Out.Int(n)
	case len(c.Args) == 2 && EqualFold(c.Args[1], "SCAN"):
		if err := c.Tx.DB().ScanKeys(c.Tx.Namespace()); err != nil {
			return err
		}
		c.Out.OK()
	default:
		return wrongArgs("dbsize")
	}
	return nil
}

func flushDB(c *Ctx) error {
	if !isFlushMode(c.Args[1:]) {
		return ErrSyntax
	}
	if err := c.Tx.FlushNamespace(); err != nil {
		return err
	}
	c.Srv.Indexes.Flush(c.Tx, c.Tx.Namespace())
	tellOfChange(c)
	return replyOK(c, nil)
}

func flushAll(c *Ctx) error {
	if !isFlushMode(c.Args[1:]) {
		return ErrSyntax
	}
	if err := c.Tx.FlushAll(); err != nil {
		return err
	}
	c.Srv.Indexes.FlushAll(c.Tx)
	tellOfChange(c)
	return replyOK(c, nil)
}

// isFlushMode reports whether the arguments are SYNC, ASYNC or none. They make no difference: a flush is one range
// tombstone.
func isFlushMode(args [][]byte) bool {
	return len(args) == 0 || len(args) == 1 && (EqualFold(args[0], "SYNC") || EqualFold(args[0], "ASYNC"))
}

// tellOfChange notifies the server of a change of all keys after its commit, whether the command runs alone or within a
// transaction or script.
func tellOfChange(c *Ctx) {
	if changed := c.Srv.KeyspaceChanged; changed != nil {
		c.Tx.OnCommit(changed)
	}
}

func bgsave(c *Ctx) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !EqualFold(c.Args[1], "SCHEDULE") {
		return ErrSyntax
	}
	if err := c.Srv.Maintenance.BackgroundSave(); err != nil {
		return err
	}
	c.Out.SimpleString("Background saving started")
	return nil
}

func save(c *Ctx) error {
	return replyOK(c, c.Srv.Maintenance.Save())
}

// lastSave also accepts Kvrocks's LASTSAVE ISO8601.
func lastSave(c *Ctx) error {
	at := c.Srv.Maintenance.LastSave()
	switch {
	case len(c.Args) == 1:
		c.Out.Int(at.Unix())
	case len(c.Args) > 2:
		return wrongArgs("lastsave")
	case EqualFold(c.Args[1], "ISO8601"):
		c.Out.BulkString(at.Format("2006-01-02T15:04:05-0700"))
	default:
		return ErrSyntax
	}
	return nil
}

// flushMemtable is Kvrocks's FLUSHMEMTABLE [ASYNC].
func flushMemtable(c *Ctx) error {
	async := len(c.Args) == 2 && EqualFold(c.Args[1], "ASYNC")
	switch {
	case len(c.Args) > 2:
		return wrongArgs("flushmemtable")
	case len(c.Args) == 2 && !async:
		return errorf("parameter must be 'ASYNC'")
	}
	return replyOK(c, c.Srv.Maintenance.FlushMemtables(!async))
}

// flushBlockCache is Kvrocks's FLUSHBLOCKCACHE. The cache of records goes too: it stands before the block cache.
func flushBlockCache(c *Ctx) error {
	if err := c.Srv.DB.Usable(); err != nil {
		return err
	}
	c.Srv.DB.DropCaches()
	c.Srv.DB.DropBlockCache()
	return replyOK(c, nil)
}

func flushBackup(c *Ctx) error {
	c.Srv.Maintenance.FlushBackup()
	return replyOK(c, nil)
}

func compact(c *Ctx) error {
	ns := c.Sess.Namespace
	if ns == cf.DefaultNamespace {
		ns = ""
	}
	return replyOK(c, c.Srv.Maintenance.Compact(ns))
}

// shutdown has no reply: the connection is closed. SAVE, NOSAVE, NOW and FORCE make no difference: every acknowledged
// write is in the log, and replicas, which are not waited for, go on from it after the next start.
func shutdown(c *Ctx) error {
	var save, noSave, abort, other bool
	o := options{args: c.Args[1:]}
	for o.more() {
		switch {
		case o.flag("SAVE", &save):
		case o.flag("NOSAVE", &noSave):
		case o.flag("NOW", &other), o.flag("FORCE", &other):
		case o.flag("ABORT", &abort):
		default:
			return ErrSyntax
		}
	}
	switch {
	case save && noSave, abort && (save || noSave || other):
		return ErrSyntax
	case abort:
		return engine.NewError("ERR", "No shutdown in progress.")
	}
	if err := c.Srv.DB.Blocked(); err != nil && !noSave {
		return err // as in Redis; a signal ends the server anyway
	}
	c.Sess.Control.CloseAfterReply()
	c.Srv.Maintenance.Shutdown()
	return nil
}
