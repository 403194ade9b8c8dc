package command

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
)

// transactionFlags are the flags of the commands that begin and end transactions: they take effect at once, also
// after MULTI.
const transactionFlags = NoScript | Loading | Stale | Fast | AllowBusy | Solo | NotQueued

var transactionCommands = []Spec{
	{Name: "multi", Handler: multi, Arity: 1, Flags: transactionFlags, Group: "transactions", Since: "1.2.0",
		Complexity: "O(1)",
		Categories: "@transaction", Summary: "Begins a transaction: the commands that follow are queued."},
	{Name: "exec", Handler: exec, Arity: 1, Flags: transactionFlags&^(Fast|AllowBusy) | SkipSlowlog,
		Group: "transactions", Since: "1.2.0", Complexity: "that of the queued commands",
		Categories: "@transaction", Summary: "Runs the queued commands, all with one commit."},
	{Name: "discard", Handler: discard, Arity: 1, Flags: transactionFlags, Group: "transactions", Since: "2.0.0",
		Complexity: "O(N) with N queued commands",
		Categories: "@transaction", Summary: "Forgets the queued commands and the watched keys."},
	{Name: "watch", Handler: watch, Arity: -2, Flags: transactionFlags, First: 1, Last: -1, Step: 1,
		Group: "transactions", Since: "2.2.0", Complexity: "O(1) for each key",
		Categories: "@transaction", Summary: "Lets the next EXEC do nothing when one of the keys has changed by then."},
	{Name: "unwatch", Handler: unwatch, Arity: 1, Flags: transactionFlags &^ NotQueued, Group: "transactions",
		Since: "2.2.0", Complexity: "O(1)",
		Categories: "@transaction", Summary: "Forgets the watched keys."},
}

func init() { register(transactionCommands...) }

// What EXEC answers when it does not run.
var (
	ErrExecAbort    = engine.NewError("EXECABORT", "Transaction discarded because of previous errors.")
	ErrNoMulti      = engine.NewError("ERR", "Command not allowed inside a transaction")
	errExecAlone    = engine.NewError("ERR", "EXEC without MULTI")
	errDiscardAlone = engine.NewError("ERR", "DISCARD without MULTI")
	errNested       = engine.NewError("ERR", "MULTI calls can not be nested")
	errWatchInside  = engine.NewError("ERR", "WATCH inside MULTI is not allowed")
)

// ErrExecBecause is what EXEC answers when it is refused itself.
func ErrExecBecause(err error) error {
	text := err.Error()
	var e *engine.Error
	if errors.As(err, &e) && e.Code != "" && e.Code != "ERR" {
		text = e.Code + " " + text
	}
	return engine.NewError("EXECABORT", "Transaction discarded because of: "+text)
}

func multi(c *Ctx) error {
	if c.Sess.Control.InMulti() {
		return errNested
	}
	c.Sess.Control.BeginMulti()
	c.Out.OK()
	return nil
}

func exec(c *Ctx) error {
	if !c.Sess.Control.InMulti() {
		return errExecAlone
	}
	return c.Sess.Control.Exec()
}

func discard(c *Ctx) error {
	if !c.Sess.Control.InMulti() {
		return errDiscardAlone
	}
	c.Sess.Control.Discard()
	c.Out.OK()
	return nil
}

func watch(c *Ctx) error {
	if c.Sess.Control.InMulti() {
		return errWatchInside
	}
	if err := c.Sess.Control.Watch(c.Args[1:]); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func unwatch(c *Ctx) error {
	c.Sess.Control.Unwatch()
	c.Out.OK()
	return nil
}
