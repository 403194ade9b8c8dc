package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/engine/offline"
)

func reslotCommand(env *Env) *cobra.Command {
	var plain, on, merge, asJSON bool
	var namespace string
	c := &cobra.Command{
		Use: "reslot FROM TO", Short: "Rewrites a database for a cluster, or for a single server", Args: cobra.ExactArgs(2),
		Long: `The keys of a database in a cluster contain their slots; other databases' keys do not. This rewrites the
database in the data directory FROM, of basalt or Kvrocks, into the new data directory TO with keys of the other form,
and compares the two at the end. FROM is not changed, so it remains as the way back.

No server may have FROM open. For a short downtime, convert a backup (BGSAVE) while the server runs, stop the server,
and add the later writes with --on from the server's own directory.

The exit code is 0 only if everything was converted and compared.`,
		Example: `  basalt reslot /var/lib/basalt/backup /var/lib/node1
  basalt reslot --on /var/lib/basalt /var/lib/node1
  basalt reslot --plain /var/lib/node1 /var/lib/basalt2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := database(args[0])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return err
			}
			if on && merge {
				return Usage("--on and --merge exclude each other")
			}
			bars := &stages{env: env}
			defer bars.stop()
			o := offline.ReslotOptions{Options: offline.Options{Phase: bars.phase}, From: from,
				To: filepath.Join(args[1], "db"), Slots: !plain, Namespace: namespace, Merge: merge}
			work := offline.Reslot
			if on {
				work = offline.ReslotOn
			}
			r, err := work(cmd.Context(), o)
			if err != nil {
				return checkError(err)
			}
			bars.stop()
			if asJSON {
				return env.JSON(r)
			}
			if on {
				fmt.Fprintf(env.Out, "%s of the log converted, %s compared, %.1f s\n", plural(r.Records, "record"),
					plural(r.Verified, "record"), r.Seconds)
				return nil
			}
			fmt.Fprintf(env.Out, "%s, %s, %s converted, %s compared, %.1f s\n", plural(r.Keys, "key"),
				plural(r.Records, "record"), formatBytes(r.Bytes), plural(r.Verified, "record"), r.Seconds)
			if r.Skipped > 0 {
				fmt.Fprintf(env.Out, "%s left out: tokens of namespaces, histories, search indexes\n",
					plural(r.Skipped, "record"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&plain, "plain", false, "from a node of a cluster to a server of its own")
	c.Flags().BoolVar(&on, "on", false, "bring what the log of FROM holds since the conversion")
	c.Flags().BoolVar(&merge, "merge", false, "add to the database in TO: to bring several nodes together")
	c.Flags().StringVar(&namespace, "namespace", "",
		"convert this `NAME` of FROM (a database n is db<n>); it becomes the default")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
