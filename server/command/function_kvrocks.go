package command

import (
	"bytes"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/lua"
)

// The subcommands of FUNCTION that Kvrocks adds.
var kvrocksFunctionCommands = []Spec{
	{Name: "listfunc", Handler: functionListFunc, Arity: -2, Flags: NoScript},
	{Name: "listlib", Handler: functionListLib, Arity: 3, Flags: NoScript},
}

// functionListFunc is FUNCTION LISTFUNC [FUNCNAME prefix]: an array of maps, sorted by the functions' names.
func functionListFunc(c *Ctx) error {
	var prefix []byte
	switch args := c.Args[2:]; {
	case len(args) == 0:
	case !EqualFold(args[0], "FUNCNAME"):
		return errorf("Unknown argument %s", echoed(args[0]))
	case len(args) != 2:
		return wrongSubcommand(c)
	default:
		prefix = args[1]
	}
	var list []*lua.Function
	for _, l := range c.Srv.Scripts.Libraries(c.Tx) {
		for _, f := range l.Functions {
			if bytes.HasPrefix([]byte(f.Name()), prefix) {
				list = append(list, f)
			}
		}
	}
	slices.SortFunc(list, func(a, b *lua.Function) int { return strings.Compare(a.Name(), b.Name()) })
	c.Out.Array(len(list))
	for _, f := range list {
		c.Out.Map(2)
		stringField(c.Out, "function_name", f.Name())
		stringField(c.Out, "from_library", f.Library.Name)
	}
	return nil
}

// functionListLib is FUNCTION LISTLIB library: a map; the functions are in the order of their registration.
func functionListLib(c *Ctx) error {
	libraries := c.Srv.Scripts.Libraries(c.Tx)
	i := slices.IndexFunc(libraries, func(l *lua.Library) bool { return l.Name == string(c.Args[2]) })
	if i < 0 {
		return errorf("The library is not found or not loaded from storage")
	}
	l := libraries[i]
	c.Out.Map(3)
	stringField(c.Out, "library_name", l.Name)
	stringField(c.Out, "engine", "lua")
	c.Out.SimpleString("functions") // so does Kvrocks
	c.Out.Array(len(l.Functions))
	for _, f := range l.Functions {
		c.Out.BulkString(f.Name())
	}
	return nil
}
