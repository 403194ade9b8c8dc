package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/offline"
)

func checkCommand(env *Env) *cobra.Command {
	var repair, asJSON bool
	var dropped string
	c := &cobra.Command{
		Use: "check DIR", Short: "Reads a data directory and reports damage", Args: cobra.ExactArgs(1),
		Long: `Checks the database in a data directory that no server has open: the checksums of all files, every record, and
whether the records are consistent. Without --repair it changes nothing in the directory.

DIR is the directory of the setting dir, or the database in it, or a backup. The exit code is 0 when nothing is wrong,
3 when something is, or when a repair could not mend everything.`,
		Example: `  basalt check /var/lib/basalt
  basalt check --repair /var/lib/basalt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := database(args[0])
			if err != nil {
				return err
			}
			bars := &stages{env: env}
			defer bars.stop()
			o := offline.Options{Phase: bars.phase, Dropped: dropped}
			if !asJSON {
				o.Problem = func(p *offline.Problem) { fmt.Fprintln(env.Out, p.String()) }
			}
			work := offline.Check
			if repair {
				work = offline.Repair
			}
			r, err := work(cmd.Context(), dir, o)
			if r == nil || err != nil {
				return checkError(err)
			}
			bars.stop()
			if asJSON {
				err = env.JSON(r)
			} else {
				err = printReport(env, r, repair)
			}
			if err == nil && r.Left > 0 {
				return Damaged(fmt.Errorf("%s in %s", plural(r.Left, "problem"), dir))
			}
			return err
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "correct counts, rebuild indexes, drop what cannot be read")
	c.Flags().StringVar(&dropped, "dropped", "", "the `FILE` for what --repair drops (default: beside the database)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// database returns the directory of the database in an argument: the argument itself, or the directory in it.
func database(arg string) (string, error) {
	for _, dir := range []string{arg, filepath.Join(arg, "db")} { // a data directory may contain checkpoints, too
		if _, err := os.ReadDir(dir); errors.Is(err, os.ErrPermission) {
			return "", err
		}
		for _, files := range []string{"CURRENT", "*.sst", "MANIFEST-*"} { // a damaged one may lack some
			if found, _ := filepath.Glob(filepath.Join(dir, files)); len(found) > 0 {
				return dir, nil
			}
		}
	}
	below, err := filepath.Glob(filepath.Join(arg, "*", "CURRENT"))
	if err != nil {
		return "", Usage("%v", err)
	}
	below = slices.DeleteFunc(below, func(name string) bool { return filepath.Base(filepath.Dir(name)) == "backup" })
	switch {
	case len(below) == 1:
		return filepath.Dir(below[0]), nil
	case len(below) > 1:
		return "", Usage("%s holds %d databases: name one of them", arg, len(below))
	}
	if _, err := os.Stat(arg); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s contains no database", arg)
}

func checkError(err error) error {
	if errors.Is(err, engine.ErrLocked) {
		return fmt.Errorf("%w: stop the server, or make a backup (BGSAVE) and look at that", err)
	}
	return err
}

// plural returns a number and a regular English noun in singular or plural.
func plural(n int64, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func printReport(env *Env, r *offline.Report, repaired bool) error {
	w := env.Out
	fmt.Fprintf(w, "%s: %s", r.Dir, plural(int64(r.Files.Tables), "table file"))
	if r.Files.Blobs > 0 {
		fmt.Fprintf(w, ", %s", plural(int64(r.Files.Blobs), "blob file"))
	}
	fmt.Fprintf(w, ", %s, read in %.1f s\n", formatBytes(r.Files.TableBytes+r.Files.BlobBytes), r.Seconds)
	if r.Files.LogTail > 0 {
		fmt.Fprintf(w, "the log ends with %s of an incomplete write, as after a crash: nothing is lost\n",
			plural(r.Files.LogTail, "byte"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Types)) {
		c := r.Types[name]
		fmt.Fprintf(w, "  %-12s %12s", name, plural(c.Keys, "key"))
		if c.Subkeys > 0 {
			fmt.Fprintf(w, ", %s", plural(c.Subkeys, "member"))
		}
		if c.Expired > 0 {
			fmt.Fprintf(w, ", %d expired", c.Expired)
		}
		if c.Empty > 0 {
			fmt.Fprintf(w, ", %d empty", c.Empty)
		}
		fmt.Fprintln(w)
	}
	if g := r.Garbage; g != (offline.Garbage{}) {
		fmt.Fprintf(w, "for compactions to drop: %d members of deleted keys, %d of old versions, %d of expired keys\n",
			g.Orphans, g.OldVersions, g.Expired)
		if g.Outside > 0 {
			fmt.Fprintf(w, "%s outside of their lists, which Kvrocks leaves: they go with the list\n",
				plural(g.Outside, "element"))
		}
	}
	if repaired {
		fmt.Fprintf(w, "repaired: %d\n", r.Repaired)
		if r.Dropped != "" {
			fmt.Fprintf(w, "dropped records are in %s\n", r.Dropped)
		}
	}
	if r.Left == 0 {
		_, err := fmt.Fprintln(w, "nothing is wrong")
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Found)) {
		fmt.Fprintf(w, "  %-18s %d\n", kind, r.Found[kind])
	}
	return nil
}

// formatBytes returns a number of bytes in a unit that fits.
func formatBytes(n int64) string {
	f, unit := float64(n), "bytes"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, next
	}
	if unit == "bytes" {
		return plural(n, "byte")
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
