package luac

import "strings"

// symbolID names a text or a number of the chunk. Each is kept once.
type symbolID int32

// symbol is what is known of a text or a number.
type symbol struct {
	text string
	// function is the number of the innermost function, of those that are being read, which has it as a constant, and
	// constant the index there. 0 = none.
	function, constant int32
	// declared is the innermost local variable of that name, as an index of parser.variables. -1 = none.
	declared int32
}

type symbolTable struct {
	list    []symbol
	texts   map[string]symbolID
	numbers map[float64]symbolID
}

// text returns the symbol of a text. It keeps a copy of that, so that the source is not kept.
func (t *symbolTable) text(s string) symbolID {
	id, ok := t.texts[s]
	if !ok {
		s = strings.Clone(s)
		id = t.add(s)
		t.texts[s] = id
	}
	return id
}

// number returns the symbol of a number: one for 0 and -0, as Lua's table of constants has it.
func (t *symbolTable) number(f float64) symbolID {
	id, ok := t.numbers[f]
	if !ok {
		id = t.add("")
		t.numbers[f] = id
	}
	return id
}

func (t *symbolTable) add(text string) symbolID {
	t.list = append(t.list, symbol{text: text, declared: -1})
	return symbolID(len(t.list) - 1)
}
