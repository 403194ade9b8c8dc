package command

import (
	_ "embed"
	"strings"
)

// helpText holds the replies of the HELP subcommands, except that of DEBUG. A line that is not indented is the name of
// a container; below it are the forms of its subcommands, and below each form, with two tabs, its description.
//
//go:embed help.txt
var helpText string

// helpLines are the lines of helpText by container.
var helpLines = parseHelp(helpText)

func parseHelp(text string) map[string][]string {
	lines := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if form, ok := strings.CutPrefix(line, "\t"); ok {
			lines[name] = append(lines[name], strings.Replace(form, "\t", "    ", 1))
		} else {
			name = line
		}
	}
	return lines
}

// help is the HELP subcommand of a container.
func help(c *Ctx) error {
	name := c.Spec.Parent.Name
	writeHelp(c, strings.ToUpper(name), helpLines[name])
	return nil
}

func writeHelp(c *Ctx, name string, lines []string) {
	c.Out.Array(len(lines) + 3)
	c.Out.SimpleString(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		c.Out.SimpleString(l)
	}
	c.Out.SimpleString("HELP")
	c.Out.SimpleString("    This text.")
}
