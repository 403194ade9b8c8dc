package difftest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// readTable reads the commands of a table: see the package documentation.
func readTable(path string) ([]command, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []command
	for i, line := range bytes.Split(data, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s:%d", filepath.Base(path), i+1)
		words, ok := resp.SplitArgs(line, nil)
		if !ok {
			return nil, fmt.Errorf("%s: quotes", where)
		}
		var mark mode
		marked := bytes.HasPrefix(words[0], []byte("~"))
		if marked {
			mark, words = mode(words[0]), words[1:]
			switch mark {
			case "~exact":
				mark = exact
			case shape, kind, set, pairs, none:
			default:
				return nil, fmt.Errorf("%s: unknown mark %s", where, mark)
			}
		}
		c := newCommand(where, toStrings(words)...)
		if marked {
			c.mode = mark
		}
		out = append(out, c)
	}
	return out, nil
}

func splitLine(line string) ([]string, error) {
	words, ok := resp.SplitArgs([]byte(line), nil)
	if !ok {
		return nil, fmt.Errorf("quotes in %s", line)
	}
	return toStrings(words), nil
}

func toStrings(words [][]byte) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// unfit are the values that take the place of an argument: numbers at and beyond
// their limits, words that are no numbers, and keys of each type.
var unfit = []string{
	"", "0", "1", "-1", "2", "-100", "100", "01", "+1", " 1", "1.5", "1e2", "-0", "abc", "nan", "inf", "-inf", "(1", "[a",
	"(", "+", "-", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400", "\x00\xff\r\n", "*",
	"NX", "COUNT", "s", "n", "h", "l", "S", "z", "missing",
}

// mutate returns the template with every argument dropped, doubled and replaced
// by the unfit values in turn, and with each number of arguments less. The
// fixture is put in front, and again after every command that removes something
// at random, or gives a key a life that may be over before the next command.
func mutate(template command, fixture []command) []command {
	var out []command
	out = append(out, fixture...)
	add := func(args []string) {
		if i := slices.Index(args, "AGGREGATE"); i > 0 && i+1 < len(args) && args[i+1] == "COUNT" {
			return // newer than the redis-server of the comparison
		}
		c := newCommand(fmt.Sprintf("%s, from %s", template.where, strings.Join(template.args, " ")), args...)
		if template.mode != exact && c.name() == template.name() {
			c.mode = template.mode
		}
		out = append(out, c)
		if c.name() == "SPOP" || c.fleeting() {
			out = append(out, fixture...)
		}
	}
	args := template.args
	add(args)
	for n := range args {
		if n > 0 {
			add(args[:n])
		}
	}
	for i := 1; i < len(args); i++ {
		add(splice(args, i, 1))
		add(splice(args, i, 0, args[i]))
		for _, v := range unfit {
			add(splice(args, i, 1, v))
		}
	}
	add(splice(args, len(args), 0, "extra"))
	return out
}

// fleeting reports whether a command gives a key a life of one of the unfit
// values, in seconds or milliseconds.
func (c command) fleeting() bool {
	life := ""
	switch c.name() {
	case "EXPIRE", "PEXPIRE", "SETEX", "PSETEX":
		if len(c.args) > 2 {
			life = c.args[2]
		}
	case "SET", "GETEX":
		for i := range c.args[:len(c.args)-1] {
			if c.args[i] == "EX" || c.args[i] == "PX" {
				life = c.args[i+1]
			}
		}
	}
	return life != "" && slices.Contains(unfit, life)
}

func splice(args []string, i, drop int, with ...string) []string {
	out := append([]string{}, args[:i]...)
	out = append(out, with...)
	return append(out, args[i+drop:]...)
}
