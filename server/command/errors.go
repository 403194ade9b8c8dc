package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

// The errors that several families share. Their texts are those of Redis.
var (
	ErrSyntax      = engine.NewError("ERR", "syntax error")
	ErrNotInteger  = engine.NewError("ERR", "value is not an integer or out of range")
	ErrNotFloat    = engine.NewError("ERR", "value is not a valid float")
	ErrOutOfRange  = engine.NewError("ERR", "value is out of range")
	ErrNotPositive = engine.NewError("ERR", "value is out of range, must be positive")
	ErrNoSuchKey   = engine.NewError("ERR", "no such key")
	ErrNoAuth      = engine.NewError("NOAUTH", "Authentication required.")
	ErrAdminOnly   = engine.NewError("ERR", "admin permission required to perform the command")
	ErrMasterDown  = engine.NewError("MASTERDOWN",
		"Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
	ErrReadOnly      = engine.NewError("READONLY", "You can't write against a read only replica.")
	ErrNoReplicas    = engine.NewError("NOREPLICAS", "Not enough good replicas to write.")
	ErrDBSize        = engine.NewError("ERR", "write command not allowed when reached max-db-size.")
	ErrInvalidCursor = engine.NewError("ERR", "invalid cursor")
)

// errorf returns an error with the code ERR.
func errorf(format string, args ...any) error {
	return engine.NewError("ERR", fmt.Sprintf(format, args...))
}

func wrongArgs(name string) error {
	return errorf("wrong number of arguments for '%s' command", name)
}

// wrongSubcommand is the error for a subcommand whose arguments do not fit, where Redis checks them itself.
func wrongSubcommand(c *Ctx) error {
	container := c.Spec
	if container.Parent != nil {
		container = container.Parent
	}
	return errorf("unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.", echoed(c.Args[1]),
		strings.ToUpper(container.Name))
}

// invalidExpire is the error for an expiry that is not positive or overflows.
func invalidExpire(name string) error {
	return errorf("invalid expire time in '%s' command", name)
}

// corruptKey names the key of a record that a handler cannot decode.
func corruptKey(key []byte, err error) error { return fmt.Errorf("key %q: %w", key, err) }

// WriteError writes an error as a reply: code and text of an [engine.Error], ERR and the text of any other.
func WriteError(w *resp.Writer, err error) {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		w.Error(e.Code, e.Text)
		return
	}
	w.Error("ERR", err.Error())
}
