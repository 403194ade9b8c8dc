package lua

import "github.com/yuin/gopher-lua/ast"

// The compiler looks for each constant among those that the function has already, one after the other: a source of a
// few megabytes could take it hours, in which nothing can stop it. So what it has to look at is counted before, and
// bounded.

const (
	// plainSource: a source that is not longer can do no harm.
	plainSource = 32 << 10
	// maxLookups bounds how many constants are looked at in all. It allows 16384 different ones in each of some functions;
	// Lua 5.1 allows 2^18.
	maxLookups = 1 << 27
)

// compileCost counts what the compiler will have to look at. The zero value counts nothing.
type compileCost struct {
	counting  bool
	constants map[string]int // of the function, with the index
	lookups   int
	line      int    // where there is too much
	problem   string // "" = nothing is too much
}

func (c *compileCost) fail(at ast.PositionHolder, problem string) {
	if c.problem == "" {
		c.problem, c.line = problem, at.Line()
	}
}

// constant counts the use of a constant; kind tells those apart that are written alike.
func (c *compileCost) constant(at ast.PositionHolder, kind byte, text string) {
	if !c.counting || c.problem != "" {
		return
	}
	if c.constants == nil {
		c.constants = map[string]int{}
	}
	key := string(kind) + text
	i, ok := c.constants[key]
	if !ok {
		i = len(c.constants)
		c.constants[key] = i
	}
	if c.lookups += i; c.lookups > maxLookups {
		c.fail(at, "constant table overflow")
	}
}
