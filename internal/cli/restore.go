package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/internal/backup"
	"github.com/basaltdb/basalt/internal/progress"
)

func restoreCommand(env *Env) *cobra.Command {
	var from, to, at string
	var parallel int
	var asJSON bool
	c := &cobra.Command{
		Use: "restore --from REPOSITORY --to DIR", Short: "Makes a data directory from a backup",
		Long: `Creates a data directory from a backup, for basalt --dir DIR. DIR must be empty or missing. Damaged backups are
refused.

Without --at it restores the newest state: the newest backup, and the log that basalt backup --follow has stored.
With a time it restores the state at that time, without later writes. If no log reaches that time, it restores the
newest state before it, and the exit code is 4.

REPOSITORY is ` + repoHelp + ".",
		Example: "  basalt restore --from /backups/basalt --to /var/lib/basalt-new\n" +
			"  basalt restore --from s3://backups/basalt --to /var/lib/basalt-new --at '2026-01-31 23:59:59'",
		RunE: func(c *cobra.Command, _ []string) error {
			o := backup.RestoreOptions{Parallel: parallel}
			if point, ok := backup.ParsePoint(at); ok {
				o.Point = &point
			} else if backup.IsID(at) {
				o.ID = at
			} else if at != "" {
				var err error
				if o.At, err = parseEnd(at); err != nil {
					return err
				}
			}
			repo, err := backup.Open(c.Context(), from, false)
			if err != nil {
				return err
			}
			bar := env.Progress("restore", 0, progress.Bytes)
			o.Progress = bar
			r, err := repo.Restore(c.Context(), to, o)
			bar.Stop()
			if err != nil {
				return damagedOr(err)
			}
			if asJSON {
				err = env.JSON(struct {
					Backup   string    `json:"backup"`
					Time     time.Time `json:"time"`
					Sequence uint64    `json:"sequence"`
					Batches  int64     `json:"batches"`
				}{r.Backup.ID, r.Reached, r.Sequence, r.Batches})
			} else {
				_, err = fmt.Fprintf(env.Out, "restored the state of %s from backup %s and %s of the log\n"+
					"start it with: basalt --dir %s\n", r.Reached.Local().Format(exactTime), r.Backup.ID,
					plural(r.Batches, "batch"), to)
			}
			switch {
			case err != nil:
				return err
			case r.Damaged != nil:
				return Damaged(fmt.Errorf("restored without a look at damaged backups: %w", r.Damaged))
			case !r.Unread.IsZero():
				return Partial(fmt.Errorf("the log was not read from %s on: later writes came too late to be restored",
					r.Unread.Local().Format(exactTime)))
			case !r.Back.IsZero():
				return Partial(fmt.Errorf("the clock was set back while the log was stored: writes with times from %s on, "+
					"which come behind later times, are not restored", r.Back.Local().Format(exactTime)))
			case r.Reached.Before(o.At):
				return Partial(fmt.Errorf("there is nothing later than %s", r.Reached.Local().Format(exactTime)))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "the repository")
	f.StringVar(&to, "to", "", "the directory to make")
	f.StringVar(&at, "at", "",
		"time (2026-01-31T23:59:59Z, or '2026-01-31 23:59:59' in local time; whole seconds: their end), id of a backup, "+
			"or TIMELINE@SEQUENCE")
	f.IntVar(&parallel, "parallel", 4, "files at a time")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	c.MarkFlagRequired("from")
	c.MarkFlagRequired("to")
	return c
}
