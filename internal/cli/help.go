package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// help prints the usage of a command, its description, its sub-commands and its flags.
func help(c *cobra.Command, _ []string) {
	w := c.OutOrStdout()
	fmt.Fprintf(w, "usage: %s\n", c.UseLine())
	if subs := visible(c); len(subs) > 0 && c.Runnable() && c.HasParent() {
		fmt.Fprintf(w, "       %s SUB-COMMAND\n", c.CommandPath())
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(text))
	if len(visible(c)) > 0 {
		fmt.Fprint(w, "\nSub-commands:\n")
		list(w, c)
	}
	if flags := c.LocalFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsagesWrapped(100))
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
}

func visible(c *cobra.Command) (subs []*cobra.Command) {
	for _, s := range c.Commands() {
		if !s.Hidden {
			subs = append(subs, s)
		}
	}
	return subs
}

func list(w io.Writer, c *cobra.Command) {
	for _, s := range visible(c) {
		fmt.Fprintf(w, "  %-15s %s\n", s.Name(), s.Short)
	}
}
