package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/config/memplan"
)

func importCommand(env *Env) *cobra.Command {
	o := transfer.ImportOptions{Stdin: env.In}
	var to string
	var who login
	var memory int
	var asJSON bool
	c := &cobra.Command{
		Use: "import FILE --to HOST:PORT|DIR", Short: "Imports RDB files, append-only files and streams of commands",
		Long: `Imports a file of Redis or Valkey into a running server, or into a new data directory. FILE is an RDB file, an
append-only file, the directory or manifest of an append-only file in several parts, or commands in the form of
redis-cli --pipe; its content decides. "-" is the standard input.

A server is HOST:PORT, unix:PATH or redis://USER:PASSWORD@HOST:PORT/DB. An interrupted import into a server continues
when the command is repeated: FILE.import-state stores its position.

A directory must be new. Records are sorted and written as RocksDB table files, without the write-ahead log.`,
		Example: `  basalt import dump.rdb --to 127.0.0.1:6666 --verify
  basalt import appendonlydir --to redis://127.0.0.1:6666/0
  basalt import dump.rdb --to /var/lib/basalt-new`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if memory <= 0 {
				// What is sorted at once becomes one range of table files: the larger, the fewer files overlap, and the less
				// is compacted.
				memory = int(min(max(memplan.Detect().Bytes/8, 64<<20), 1<<30) >> 20)
			}
			o.Path, o.Memory = args[0], memory<<20
			if err := target(to, &o.Server, &o.Dir); err != nil {
				return err
			}
			if err := who.complete(o.Server); err != nil {
				return err
			}
			return runImport(cmd.Context(), env, o, asJSON)
		},
	}
	f := c.Flags()
	who.flags(f)
	f.StringVar(&to, "to", "", "server or new directory")
	c.MarkFlagRequired("to")
	f.StringVarP(&o.Config, "config", "c", "", "configuration file of the directory")
	f.IntVar(&o.DB, "db", -1, "import only this database of an RDB file, into the database that the server is asked for")
	f.BoolVar(&o.SkipUnknown, "skip-unknown", false, "leave out and list values of unknown modules")
	f.BoolVar(&o.Verify, "verify", false, "read an RDB file again and compare every key")
	f.BoolVar(&o.Restart, "restart", false, "begin anew, although an earlier import was interrupted")
	f.StringVar(&o.State, "state", "",
		"file that says how far an import into a server has come (default FILE.import-state)")
	f.IntVar(&memory, "memory", 0, "MiB for sorting (default an eighth of the machine's or the container's, 64 to 1024)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// target parses a server or a directory: a directory has a slash or no colon.
func target(s string, server **transfer.Address, dir *string) error {
	if strings.HasPrefix(s, "unix:") || strings.Contains(s, "://") ||
		strings.Contains(s, ":") && !strings.ContainsAny(s, "/\\") {
		if _, err := os.Stat(s); err != nil {
			a, err := transfer.ParseAddress(s)
			if err != nil {
				return Usage("%v", err)
			}
			*server = &a
			return nil
		}
	}
	if s == "" {
		return Usage("a server or a directory is missing")
	}
	*dir = s
	return nil
}

func runImport(ctx context.Context, env *Env, o transfer.ImportOptions, asJSON bool) error {
	bars := &stages{env: env}
	if env.Width != nil && env.Width() > 0 {
		o.Progress = bars.add
	}
	r, err := transfer.Import(ctx, o)
	bars.stop()
	if err != nil && ctx.Err() != nil {
		err = context.Canceled
	}
	if asJSON {
		if e := env.JSON(r); err == nil {
			err = e
		}
	} else if err == nil || r.Keys+r.Commands > 0 {
		printImport(env, r)
	}
	if err == nil && !r.Complete() {
		err = Partial(errors.New("not everything was imported, see above"))
	}
	return err
}

func printImport(env *Env, r *transfer.ImportResult) {
	w := env.Out
	var counts []string
	for _, n := range []struct {
		name string
		n    int64
	}{{"keys", r.Keys}, {"commands", r.Commands}, {"libraries", r.Libraries}, {"expired", r.Expired}, {"empty", r.Empty},
		{"of other databases", r.OtherDB}, {"compared", r.Verified}} {
		if n.n > 0 || n.name == "keys" && r.Commands == 0 {
			counts = append(counts, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	fmt.Fprint(w, strings.Join(counts, ", "))
	fmt.Fprintf(w, " in %.1f s (%.0f keys and commands a second)\n", r.Seconds,
		float64(r.Keys+r.Commands)/max(r.Seconds, 1e-9))
	if r.Resumed > 0 {
		fmt.Fprintf(w, "went on at byte %d, where an earlier import was interrupted (--restart begins anew)\n", r.Resumed)
	}
	for _, s := range r.Warnings {
		fmt.Fprintln(w, "warning:", s)
	}
	for _, reason := range r.Reasons() {
		printExamples(env, "left out: "+reason, r.Skipped[reason])
	}
	printExamples(env, "errors", r.Errors)
	printExamples(env, "differences", r.Differ)
}

func printExamples(env *Env, what string, e *transfer.Examples) {
	if e == nil || e.Count == 0 {
		return
	}
	fmt.Fprintf(env.Out, "%s: %d\n", what, e.Count)
	for _, s := range e.First {
		fmt.Fprintln(env.Out, "  ", s)
	}
	if more := e.Count - int64(len(e.First)); more > 0 {
		fmt.Fprintf(env.Out, "   and %d more\n", more)
	}
}
