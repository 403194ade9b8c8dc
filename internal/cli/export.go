package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/internal/progress"
	"github.com/basaltdb/basalt/internal/transfer"
)

func exportCommand(env *Env) *cobra.Command {
	var o transfer.ExportOptions
	var from, to string
	var who login
	c := &cobra.Command{
		Use:   "export --from HOST:PORT|DIR --format rdb|resp|jsonl --to FILE",
		Short: "Exports keys as an RDB file, as commands, or as lines of JSON",
		Long: `Exports the keys of a running server, or of a data directory that no server has open.

rdb is a file that Redis can load, resp a stream of commands for redis-cli --pipe and basalt import, jsonl one line of
JSON for each key. What a format cannot represent is listed, and the exit code is then 4.

Keys of a running server are read one after the other; a key that changes meanwhile is exported as it is when it is
read. An incomplete file is removed.`,
		Example: `  basalt export --from 127.0.0.1:6666 --format rdb --to dump.rdb
  basalt export --from /var/lib/basalt --format jsonl --to - --match 'user:*'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := target(from, &o.Server, &o.Dir); err != nil {
				return err
			}
			switch o.Format {
			case "rdb", "resp", "jsonl":
			default:
				return Usage("--format is rdb, resp or jsonl")
			}
			if o.Version != 11 && o.Version != 12 {
				return Usage("--rdb-version is 11 or 12")
			}
			if err := who.complete(o.Server); err != nil {
				return err
			}
			return runExport(cmd.Context(), env, o, to)
		},
	}
	f := c.Flags()
	who.flags(f)
	f.StringVar(&from, "from", "", "server or data directory")
	f.StringVar(&to, "to", "", "file, - is the standard output")
	f.StringVar(&o.Format, "format", "", "rdb, resp or jsonl")
	for _, name := range []string{"from", "to", "format"} {
		c.MarkFlagRequired(name)
	}
	f.StringVarP(&o.Config, "config", "c", "", "configuration file of the directory")
	f.IntVar(&o.Version, "rdb-version", 11, "version of the RDB file: 11 (Redis 7.2), or 12 (7.4) with expiries of fields")
	f.IntVar(&o.DB, "db", -1, "export only this database")
	f.StringVar(&o.Match, "match", "", "export only keys that match this pattern")
	return c
}

func runExport(ctx context.Context, env *Env, o transfer.ExportOptions, to string) (err error) {
	var file *os.File
	if to == "-" {
		o.Out = env.Out
	} else {
		if file, err = os.OpenFile(to+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		o.Out = io.Writer(file)
	}
	var bar *progress.Bar
	o.Progress = func(n, total int64) {
		if bar == nil {
			bar = env.Progress("exporting", total, progress.Items)
		}
		bar.Add(n)
	}
	r, err := transfer.Export(ctx, o)
	bar.Stop()
	if file != nil {
		if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
			err = os.Rename(file.Name(), to)
		} else {
			os.Remove(file.Name())
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Canceled
		}
		return err
	}
	w := *env
	w.Out = env.Err // the standard output may be the file
	fmt.Fprintf(w.Out, "keys %d, libraries %d in %.1f s\n", r.Keys, r.Libraries, r.Seconds)
	for _, reason := range r.Reasons() {
		printExamples(&w, reason, r.Skipped[reason])
	}
	if len(r.Skipped) > 0 {
		return Partial(errors.New("not everything was exported, see above"))
	}
	return nil
}
