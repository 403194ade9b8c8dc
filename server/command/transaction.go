package command

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
)

// transactionFlags are the flags of the commands that begin and end transactions: they take effect at once, also
// after MULTI.
const transactionFlags = NoScript | Loading | Stale | Fast | AllowBusy | Solo | NotQueued

var transactionCommands = []Spec{
	{Name: "multi", Handler: multi, Arity: 1, Flags: transactionFlags},
	{Name: "exec", Handler: exec, Arity: 1, Flags: transactionFlags&^(Fast|AllowBusy) | SkipSlowlog},
	{Name: "discard", Handler: discard, Arity: 1, Flags: transactionFlags},
	{Name: "watch", Handler: watch, Arity: -2, Flags: transactionFlags},
	{Name: "unwatch", Handler: unwatch, Arity: 1, Flags: transactionFlags &^ NotQueued},
}

// What EXEC answers when it does not run.
var (
	ErrExecAbort = engine.NewError("EXECABORT", "Transaction discarded because of previous errors.")
	ErrNoMulti   = engine.NewError("ERR", "Command not allowed inside a transaction")
)

// ErrExecBecause is what EXEC answers when it is refused itself.
func ErrExecBecause(err error) error {
	text := err.Error()
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code != "" && e.Code != "ERR" {
		text = e.Code + " " + text
	}
	return engine.NewError("EXECABORT", "Transaction discarded because of: "+text)
}

func multi(c *Ctx) error {
	if c.Sess.Control.InMulti() {
		return errorf("MULTI calls can not be nested")
	}
	c.Sess.Control.BeginMulti()
	return replyOK(c, nil)
}

func exec(c *Ctx) error {
	if !c.Sess.Control.InMulti() {
		return errorf("EXEC without MULTI")
	}
	return c.Sess.Control.Exec()
}

func discard(c *Ctx) error {
	if !c.Sess.Control.InMulti() {
		return errorf("DISCARD without MULTI")
	}
	c.Sess.Control.Discard()
	return replyOK(c, nil)
}

func watch(c *Ctx) error {
	if c.Sess.Control.InMulti() {
		return errorf("WATCH inside MULTI is not allowed")
	}
	return replyOK(c, c.Sess.Control.Watch(c.Args[1:]))
}

func unwatch(c *Ctx) error {
	c.Sess.Control.Unwatch()
	return replyOK(c, nil)
}
