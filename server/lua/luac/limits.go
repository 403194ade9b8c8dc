package luac

import "github.com/yuin/gopher-lua/ast"

// The compiler searches each constant linearly among those that the function has already: for a source of a few
// megabytes that could take hours, during which nothing can stop the compiler. So the number of comparisons is computed
// before the compilation, and is limited.

const (
	// plainSource is the max length in bytes of a source that is compiled without counting: it is harmless.
	plainSource = 32 << 10
	// maxLookups is the max total number of comparisons in a source. It allows one function with 16384 different
	// constants, each used once; Lua 5.1 allows 2^18 constants in each function.
	maxLookups = 1 << 27
)

// compileCost counts the comparisons of the compiler. The zero value is ready to use.
type compileCost struct {
	counting  bool
	constants map[string]int // the index of each constant of the current function
	lookups   int
	line      int    // where the limit was exceeded
	problem   string // "" = the limit was not exceeded
}

func (c *compileCost) fail(at ast.PositionHolder, problem string) {
	if c.problem == "" {
		c.problem, c.line = problem, at.Line()
	}
}

// constant counts the use of a constant; kind distinguishes constants with the same text.
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
