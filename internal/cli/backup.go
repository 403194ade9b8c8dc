package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/backup"
	"github.com/basaltdb/basalt/internal/progress"
)

const repoHelp = "DIR or s3://BUCKET/PREFIX (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL)"

// backupServer returns the server in --from, nil if it is a directory.
func backupServer(from string, l *login) (*backup.Server, error) {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return nil, nil
	}
	if !isAddress(from) {
		return nil, fmt.Errorf("--from %s: no such directory, and not HOST:PORT", from)
	}
	s := &backup.Server{Addr: from, User: l.user}
	var err error
	if s.Password, err = l.secret(); err != nil {
		return nil, err
	}
	s.TLS, err = l.tlsConfig(from)
	return s, err
}

func backupCommand(env *Env) *cobra.Command {
	var auth login
	var from, to string
	var follow, asJSON bool
	var parallel int
	var interval, every time.Duration
	c := &cobra.Command{
		Use: "backup --from HOST:PORT|DIR --to REPOSITORY", Short: "Makes a backup; lists, verifies and prunes backups",
		Long: `Makes a backup of a running server, over the network, or of a directory. It transfers only what the repository
does not contain yet. An interrupted backup continues when the command is repeated.

With --follow it also stores every later write of the server until it is stopped: basalt restore --at TIME then
restores any second. It begins with a backup, or continues the log of an earlier run if the server still has the
next write.

REPOSITORY is ` + repoHelp + ".",
		Example: "  basalt backup --from 127.0.0.1:6666 --to /backups/basalt\n" +
			"  basalt backup --from 127.0.0.1:6666 --to s3://backups/basalt --follow --every 24h",
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"interval", "every"} {
				if !follow && c.Flags().Changed(name) {
					return Usage("--%s is for --follow", name)
				}
			}
			server, err := backupServer(from, &auth)
			if err != nil {
				return err
			}
			if follow && server == nil {
				return Usage("--follow wants the HOST:PORT of a running server")
			}
			repo, err := backup.Open(c.Context(), to, true)
			if err != nil {
				return err
			}
			o := backup.CreateOptions{Parallel: parallel}
			if follow {
				return repo.Follow(c.Context(), server, backup.FollowOptions{CreateOptions: o, Interval: interval, Every: every,
					Event: func(e backup.Event) { showEvent(env, e, asJSON) }})
			}
			bar := env.Progress("backup", 0, progress.Bytes)
			o.Progress = bar
			var made *backup.Created
			if server != nil {
				made, err = repo.CreateFromServer(c.Context(), server, o)
			} else {
				made, err = repo.CreateFromDir(c.Context(), from, o)
			}
			bar.Stop()
			if err != nil {
				return err
			}
			if asJSON {
				return env.JSON(createdJSON(made))
			}
			_, err = fmt.Fprintf(env.Out, "backup %s\n%s\n", made.ID, describe(made))
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "",
		"HOST:PORT of a running server, or the directory of one that is stopped, or a backup-dir")
	c.MarkFlagRequired("from")
	auth.flags(f)
	f.StringVar(&to, "to", "", "the repository, which is made if it does not exist")
	c.MarkFlagRequired("to")
	f.IntVar(&parallel, "parallel", 4, "files at a time")
	f.BoolVar(&follow, "follow", false, "store every write too, until the program is stopped")
	f.DurationVar(&interval, "interval", 5*time.Second, "with --follow: how often the newest writes are stored")
	f.DurationVar(&every, "every", 0, "with --follow: how often a backup is made, such as 24h; 0 is only at the beginning")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(backupList(env), backupVerify(env), backupPrune(env), backupFlushes(env))
	return c
}

func describe(c *backup.Created) string {
	return fmt.Sprintf("%s with %s, of which %d with %s are new, in %s", plural(int64(len(c.Files)+len(c.Log)), "file"),
		progress.Size(c.Size()), c.NewFiles, progress.Size(c.NewBytes), c.Took.Round(10*time.Millisecond))
}

// summary is the output for a backup.
type summary struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Sequence uint64    `json:"sequence"`
	Source   string    `json:"source"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Timeline string    `json:"timeline,omitempty"`
}

func summarize(b *backup.Backup) summary {
	return summary{b.ID, b.Time, b.Sequence, b.Source, len(b.Files) + len(b.Log), b.Size(), b.Timeline}
}

func createdJSON(c *backup.Created) any {
	return struct {
		summary
		NewFiles int64   `json:"new_files"`
		NewBytes int64   `json:"new_bytes"`
		Seconds  float64 `json:"seconds"`
	}{summarize(c.Backup), c.NewFiles, c.NewBytes, c.Took.Seconds()}
}

func showEvent(env *Env, e backup.Event, asJSON bool) {
	now := time.Now()
	if asJSON {
		v := struct {
			Time     time.Time `json:"time"`
			Timeline string    `json:"timeline"`
			Message  string    `json:"message"`
			Backup   string    `json:"backup,omitempty"`
		}{Time: now.UTC(), Timeline: e.Timeline, Message: e.Message}
		if e.Created != nil {
			v.Backup = e.Created.ID
		}
		env.JSON(v)
		return
	}
	text := e.Message
	if e.Created != nil {
		text += ", " + describe(e.Created)
	}
	fmt.Fprintln(env.Err, now.Format(time.RFC3339), text)
}

func backupList(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list REPOSITORY", Short: "Lists backups, and the times that can be restored", Args: cobra.ExactArgs(1),
		Long: "Lists backups, oldest first, and the time spans of which every moment can be restored.\n\n" +
			"REPOSITORY is " + repoHelp + ".",
		RunE: func(c *cobra.Command, args []string) error {
			repo, err := backup.Open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			backups, damage := repo.Backups(c.Context())
			if damage != nil && !errors.Is(damage, backup.ErrDamaged) {
				return damage
			}
			spans, err := repo.Spans(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				v := struct {
					Backups []summary     `json:"backups"`
					Spans   []backup.Span `json:"spans"`
				}{[]summary{}, spans}
				for _, b := range backups {
					v.Backups = append(v.Backups, summarize(b))
				}
				err = env.JSON(v)
			} else {
				err = printList(env, backups, spans)
			}
			if damage != nil {
				return Damaged(damage)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printList(env *Env, backups []*backup.Backup, spans []backup.Span) error {
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "ID\tTIME\tFILES\tSIZE\tSOURCE\n")
	for _, b := range backups {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", b.ID, b.Time.Local().Format(time.RFC3339), len(b.Files)+len(b.Log),
			progress.Size(b.Size()), b.Source)
	}
	if len(spans) > 0 {
		fmt.Fprint(w, "\nANY MOMENT FROM\tTO\n")
	}
	for _, s := range spans {
		fmt.Fprintf(w, "%s\t%s\n", s.From.Local().Format(exactTime), s.To.Local().Format(exactTime))
	}
	return w.Flush()
}

func backupVerify(env *Env) *cobra.Command {
	var asJSON bool
	var parallel int
	c := &cobra.Command{
		Use: "verify REPOSITORY [ID...]", Short: "Reads backups and compares them with their checksums",
		Args: cobra.MinimumNArgs(1),
		Long: `Reads all backups and the log, or the named backups, and compares them with the checksums made at the backup.
The exit code is 3 when something is damaged; the output names it.

REPOSITORY is ` + repoHelp + ".",
		RunE: func(c *cobra.Command, args []string) error {
			repo, err := backup.Open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			o := backup.VerifyOptions{IDs: args[1:], Parallel: parallel}
			bar := env.Progress("verify", 0, progress.Bytes)
			o.Progress = bar
			v, err := repo.Verify(c.Context(), o)
			bar.Stop()
			if err != nil {
				return err
			}
			if asJSON {
				err = env.JSON(v)
			} else {
				for _, d := range v.Damage {
					fmt.Fprintln(env.Out, strings.ReplaceAll(d, "\n", " "))
				}
				_, err = fmt.Fprintf(env.Out, "%s, %s, %s of the log, %s: %d damaged\n", plural(int64(v.Backups), "backup"),
					plural(int64(v.Files), "file"), plural(int64(v.Segments), "segment"), progress.Size(v.Bytes), len(v.Damage))
			}
			if len(v.Damage) > 0 {
				return Damaged(fmt.Errorf("damaged: %s", plural(int64(len(v.Damage)), "object")))
			}
			return err
		},
	}
	c.Flags().IntVar(&parallel, "parallel", 4, "files at a time")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func backupPrune(env *Env) *cobra.Command {
	var o backup.PruneOptions
	var asJSON bool
	c := &cobra.Command{
		Use: "prune REPOSITORY --keep-last N", Short: "Removes old backups and what no backup needs",
		Args: cobra.ExactArgs(1),
		Long: `Removes all backups except those that a flag keeps, then the files that no backup needs, and the part of the
log that leads to no restorable time.

REPOSITORY is ` + repoHelp + ".",
		RunE: func(c *cobra.Command, args []string) error {
			if min(o.KeepLast, o.KeepDaily, int(o.KeepLog)) < 0 {
				return Usage("a number is negative")
			}
			repo, err := backup.Open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			p, err := repo.Prune(c.Context(), o)
			if errors.Is(err, backup.ErrKeepNone) {
				return Usage("--keep-last or --keep-daily must be given")
			}
			if err != nil {
				return err
			}
			if asJSON {
				return env.JSON(p)
			}
			what := "removed"
			if o.DryRun {
				what = "to be removed"
			}
			_, err = fmt.Fprintf(env.Out, "kept: %s\n%s: %s, %s, %s of the log, %s\n",
				plural(int64(len(p.Kept)), "backup"), what, plural(int64(len(p.Removed)), "backup"),
				plural(int64(p.Files), "file"), plural(int64(p.Segments), "segment"), progress.Size(p.Bytes))
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.KeepLast, "keep-last", 0, "keep this many of the newest backups")
	f.IntVar(&o.KeepDaily, "keep-daily", 0, "keep the newest backup of each of this many days (UTC)")
	f.DurationVar(&o.KeepLog, "keep-log", 0,
		"keep every moment of this duration, such as 72h; 0 = as far back as the kept backups")
	f.BoolVar(&o.DryRun, "dry-run", false, "remove nothing, and list what would be removed")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func backupFlushes(env *Env) *cobra.Command {
	var since, until string
	var asJSON bool
	c := &cobra.Command{
		Use: "flushes REPOSITORY", Short: "Lists FLUSHALL and FLUSHDB in the log, with the time to restore",
		Args: cobra.ExactArgs(1),
		Long: `Lists the deletions of all keys, or of key ranges, in the log that basalt backup --follow has stored. Each line
begins with the state just before the deletion, for basalt restore --at.

REPOSITORY is ` + repoHelp + ".",
		RunE: func(c *cobra.Command, args []string) error {
			var times [2]time.Time
			for i, parse := range []func(string) (time.Time, error){parseTime, parseEnd} {
				var err error
				if s := []string{since, until}[i]; s != "" {
					if times[i], err = parse(s); err != nil {
						return err
					}
				}
			}
			repo, err := backup.Open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			found, err := repo.Flushes(c.Context(), times[0], times[1])
			if err != nil {
				return damagedOr(err)
			}
			if asJSON {
				return env.JSON(found)
			}
			for _, f := range found {
				fmt.Fprintf(env.Out, "%s  came at %s, %s\n", f.Before, f.Time.Local().Format(exactTime), rangeText(f.From, f.To))
			}
			return nil
		},
	}
	c.Flags().StringVar(&since, "since", "", "not before this time")
	c.Flags().StringVar(&until, "until", "", "not after this time")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// exactTime is the format of times that users may pass back: RFC 3339 with milliseconds.
const exactTime = "2006-01-02T15:04:05.000Z07:00"

// parseTime parses a time: RFC 3339, or without a zone in local time.
func parseTime(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, Usage("%q is no time: 2026-01-31T23:59:59Z, or 2026-01-31 23:59:59 in local time", s)
}

// parseEnd parses a time as the end of something: whole seconds are meant to their last millisecond.
func parseEnd(s string) (time.Time, error) {
	t, err := parseTime(s)
	if err == nil && !strings.ContainsAny(s, ".,") {
		t = t.Add(time.Second - time.Millisecond)
	}
	return t, err
}

// damagedOr gives errors about damage the exit code ExitDamage.
func damagedOr(err error) error {
	if errors.Is(err, backup.ErrDamaged) {
		return Damaged(err)
	}
	return err
}

// rangeText describes a range of metadata keys that was deleted.
func rangeText(from, to []byte) string {
	if len(from) == 0 && bytes.Count(to, []byte{0xff}) == len(to) {
		return "all keys"
	}
	ns, key, err := cf.SplitNSKey(from, false)
	if err == nil && len(key) == 0 {
		if after, _ := cf.AppendSuccessor(nil, from); bytes.Equal(after, to) {
			if n, ok := cf.NamespaceDatabase(string(ns)); ok {
				return fmt.Sprintf("all keys of database %d", n)
			}
			return fmt.Sprintf("all keys of namespace %q", ns)
		}
	}
	return fmt.Sprintf("keys %.40q to %.40q", from, to)
}
