// Man prints the manual page basalt(1), made of the help of the program.
//
// usage: man VERSION
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/basaltdb/basalt/internal/cli"
	"github.com/basaltdb/basalt/server/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man VERSION")
		os.Exit(2)
	}
	w := bufio.NewWriter(os.Stdout)
	page(w, os.Args[1])
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func page(w *bufio.Writer, version string) {
	fmt.Fprintf(w, ".TH BASALT 1 \"\" \"basalt %s\" \"User commands\"\n", escape(version))
	fmt.Fprint(w, ".SH NAME\nbasalt \\- a Redis-compatible server that stores its data in RocksDB\n.SH SYNOPSIS\n.nf\n")
	text(w, config.Usage)
	fmt.Fprint(w, ".fi\n.SH DESCRIPTION\n")
	text(w,
		"Without a sub-command basalt is the server. Its settings stand in a kvrocks.toml, each with a comment, or in a "+
			"kvrocks.conf of Kvrocks.\n")
	fmt.Fprint(w, ".SH SUB-COMMANDS\n")
	commands(w, cli.Root(&cli.Env{}))
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	for _, c := range []struct {
		code int
		text string
	}{
		{cli.ExitOK, "The work is done."}, {cli.ExitError, "The work failed."},
		{cli.ExitUsage, "The command line is wrong."}, {cli.ExitDamage, "Damaged data was found."},
		{cli.ExitPartial, "The work is done except for what the output lists."},
		{cli.ExitInterrupted, "SIGINT or SIGTERM interrupted the work."},
	} {
		fmt.Fprintf(w, ".TP\n.B %d\n%s\n", c.code, escape(c.text))
	}
	fmt.Fprint(w, ".SH FILES\n.TP\n.I /etc/basalt/kvrocks.toml\nSettings of the packaged server.\n"+
		".TP\n.I /var/lib/basalt\nIts data.\n.TP\n.I /usr/share/doc/basalt\nDocumentation.\n")
}

// commands describes the commands below one.
func commands(w *bufio.Writer, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(w, ".SS \"%s\"\n", escape(c.UseLine()))
		if c.Long != "" {
			text(w, c.Long+"\n")
		} else {
			text(w, c.Short+".\n")
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(w, ".TP\n.B \\-\\-%s", escape(f.Name))
			if value != "" {
				fmt.Fprintf(w, " \\fI%s\\fR", escape(value))
			}
			fmt.Fprint(w, "\n")
			text(w, usage+"\n")
		})
		commands(w, c)
	}
}

// text writes lines; an empty one ends a paragraph.
func text(w *bufio.Writer, s string) {
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			fmt.Fprint(w, ".PP\n")
		case strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'"):
			fmt.Fprintf(w, "\\&%s\n", escape(line))
		default:
			fmt.Fprintln(w, escape(line))
		}
	}
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
}
