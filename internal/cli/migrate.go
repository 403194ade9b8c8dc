package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/internal/migrate"
	"github.com/basaltdb/basalt/internal/progress"
	"github.com/basaltdb/basalt/internal/transfer"
)

func migrateCommand(env *Env) *cobra.Command {
	o := migrate.Options{Pause: migrate.DefaultPause}
	var from, to, fromPassword, toPassword string
	var certs certificates
	var asJSON bool
	c := &cobra.Command{
		Use:   "migrate --from SERVER --to SERVER",
		Short: "Moves a running server to another one or to a cluster, or compares them",
		Long: `Brings all data of a running Redis, Valkey, Kvrocks or basalt to another server while clients go on to use the
first one, and compares both. SERVER is HOST:PORT or redis://USER:PASSWORD@HOST:PORT/DB (rediss:// with TLS).

A basalt becomes a replica of the source. Into a cluster (any of its nodes is named) or a Redis this command copies:
first all keys, then what changes.

Without --cutover it ends when the target has everything and was compared; started again, it goes on. On a terminal it
waits for Enter instead, which is the cut-over. --cutover pauses the writes of the source, waits for the last one,
compares, makes the target independent, and lets the source refuse writes from then on.

Differences, and keys that were left out, are listed, and the exit code is 4; there is no cut-over then.`,
		Example: `  basalt migrate --from redis://:secret@10.0.0.1:6379 --to 127.0.0.1:6666
  basalt migrate --from redis://:secret@10.0.0.1:6379 --to 127.0.0.1:6666 --cutover
  basalt migrate --from rediss://10.0.0.1:6379 --from-password-file secret --cacert ca.pem --to 127.0.0.1:6666
  basalt migrate --from 10.0.0.1:6379 --to 127.0.0.1:6666 --compare-only --sample 100000`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.From, err = transfer.ParseAddress(from); err != nil {
				return Usage("--from: %v", err)
			}
			if o.To, err = transfer.ParseAddress(to); err != nil {
				return Usage("--to: %v", err)
			}
			switch {
			case o.From.Host == o.To.Host && o.From.DB == o.To.DB:
				return Usage("--from and --to are the same")
			case o.CompareOnly && (o.Cutover || o.Follow || o.NoCompare || o.Replace):
				return Usage("--compare-only excludes the flags of a migration")
			case o.Follow && o.Cutover:
				return Usage("--follow and --cutover exclude each other")
			case o.Pause <= 0 || o.Sample < 0:
				return Usage("--pause must be positive, and --sample not negative")
			}
			for _, x := range []struct {
				a          *transfer.Address
				flag, file string
			}{{&o.From, "--from-password-file", fromPassword}, {&o.To, "--to-password-file", toPassword}} {
				if x.file == "" {
					continue
				}
				if x.a.Password, err = passwordOf(x.flag, x.file); err != nil {
					return err
				}
			}
			if err := certs.use(&o.From, &o.To); err != nil {
				return err
			}
			return runMigrate(cmd.Context(), env, o, asJSON)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "the `SERVER` that has the data")
	f.StringVar(&to, "to", "", "the `SERVER`, or a node of the cluster, that gets them")
	c.MarkFlagRequired("from")
	c.MarkFlagRequired("to")
	f.StringVar(&fromPassword, "from-password-file", "", "the `FILE` that the password of the source stands in")
	f.StringVar(&toPassword, "to-password-file", "", "the `FILE` that the password of the target stands in")
	certs.flags(f)
	f.BoolVar(&o.Cutover, "cutover", false, "pause the writes of the source, compare, and make the target independent")
	f.BoolVar(&o.WritersStopped, "writers-stopped", false,
		"nobody writes to the source: cut over although it cannot pause writes")
	f.DurationVar(&o.Pause, "pause", o.Pause, "longest time for which writes to the source wait")
	f.BoolVar(&o.Follow, "follow", false, "go on until it is interrupted")
	f.BoolVar(&o.Replace, "replace", false, "delete what the target has")
	f.BoolVar(&o.CompareOnly, "compare-only", false, "only compare the two")
	f.BoolVar(&o.NoCompare, "no-compare", false, "do not compare")
	f.Int64Var(&o.Sample, "sample", 0, "compare about so many keys of each database, chosen at random (default all)")
	f.BoolVar(&o.AcceptDifferences, "accept-differences", false, "cut over although the two differ")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// use gives the certificates to the addresses with TLS.
func (c *certificates) use(addrs ...*transfer.Address) error {
	if !c.given() {
		return nil
	}
	conf, err := c.config()
	used := false
	for _, a := range addrs {
		if a.TLS != nil {
			a.TLS, used = conf, true
		}
	}
	if err == nil && !used {
		return Usage("--cacert, --cert and --key are for addresses that begin with rediss://")
	}
	return err
}

func runMigrate(ctx context.Context, env *Env, o migrate.Options, asJSON bool) error {
	bars := &stages{env: env}
	if env.Width != nil && env.Width() > 0 {
		o.Progress, o.Note = bars.at, bars.note
		if in, ok := env.In.(*os.File); ok && progress.Width(in) > 0 && !asJSON {
			o.Confirm = func() bool {
				_, err := bufio.NewReader(in).ReadString('\n')
				return err == nil
			}
		}
	}
	r, err := migrate.Run(ctx, o)
	bars.stop()
	if err != nil && ctx.Err() != nil {
		err = context.Canceled
	}
	if asJSON {
		if e := env.JSON(r); err == nil {
			err = e
		}
	} else if r.To != "" {
		printMigrate(env, r)
	}
	switch {
	case errors.Is(err, migrate.ErrDiffer), errors.Is(err, migrate.ErrLeftOut):
		return Partial(err)
	case err == nil && r.Comparison != nil && r.Comparison.Differ > 0:
		return Partial(errors.New("the two differ, see above"))
	case err == nil && len(r.LeftOut) > 0:
		return Partial(errors.New("something was left out, see above"))
	}
	return err
}

// maxPrinted is the max number of differences that are printed.
const maxPrinted = 20

func printMigrate(env *Env, r *migrate.Result) {
	w := env.Out
	if r.Copied > 0 {
		fmt.Fprintf(w, "%s copied\n", plural(r.Copied, "key"))
	}
	if c := r.Comparison; c != nil {
		fmt.Fprintf(w, "%s compared, %d differ, in %.1f s\n", plural(c.Keys, "key"), c.Differ, c.Seconds)
		for _, d := range c.Differences[:min(len(c.Differences), maxPrinted)] {
			fmt.Fprintf(w, "   database %d, %.100q: %s\n", d.DB, d.Key, d.What)
		}
		if more := c.Differ - maxPrinted; more > 0 {
			fmt.Fprintf(w, "   and %d more\n", more)
		}
		if c.Changing > 0 {
			fmt.Fprintf(w, "%s changed whenever compared\n", plural(c.Changing, "key"))
		}
		printExamples(env, "compared by type and expiry only", c.ByType)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.LeftOut)) {
		printExamples(env, "left out: "+reason, r.LeftOut[reason])
	}
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	switch {
	case r.CutOver:
		fmt.Fprintf(w, "the cut-over is done: point the clients to %s\n", r.To)
		if r.Paused > 0 {
			fmt.Fprintf(w, "writes to the source waited for %.1f s\n", r.Paused)
		}
		fmt.Fprintf(w, "the source %s\n", r.Source)
	case r.Following && r.How == "follow":
		fmt.Fprintln(w, "the target has caught up, and goes on to follow the source; --cutover makes it independent")
	case r.Following:
		fmt.Fprintln(w, "the target had caught up; the same command goes on there, with --cutover it ends the migration")
	}
}
