package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/internal/doctor"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/resp"
)

func doctorCommand(env *Env) *cobra.Command {
	var file, addr, root string
	var asJSON bool
	var who login
	c := &cobra.Command{
		Use: "doctor", Short: "Finds problems of this host, the settings and a running server",
		Long: `Checks the kernel's settings, the limits of this process, the settings of a configuration file, and a running
server. It describes each problem and how to solve it. The limits are those of the calling shell: call it as the
server's user.

The exit code is 3 when data, security or service are at risk, 0 when all findings are advice.`,
		Example: `  basalt doctor -c /etc/basalt/kvrocks.toml
  basalt doctor --server 127.0.0.1:6666`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if addr != "" && !isAddress(addr) {
				return Usage("--server wants HOST:PORT")
			}
			var args []string
			if file != "" {
				args = []string{"-c", file}
			}
			cfg, err := config.Load(args, os.Stdin)
			if err == nil {
				err = server.Check(cfg)
			}
			var found []doctor.Finding
			if err != nil {
				found = append(found, doctor.Finding{Level: doctor.Wrong, About: "settings", What: err.Error(),
					Do: "correct it: a server with these settings does not start; what depends on them was not looked at"})
			} else {
				facts := Facts(cfg)
				if root != "/" {
					facts.Root = os.DirFS(root)
				}
				known := addr == "" || file != ""
				if !known { // the server has other settings, and data elsewhere
					facts.FileSystem, facts.Disk = "", 0
				}
				found = doctor.Machine(facts)
				if known {
					found = append(found, doctor.Settings(facts)...)
				}
			}
			if addr != "" {
				found = append(found, serverFindings(cmd.Context(), &who, addr)...)
			}
			return printFindings(env, found, asJSON)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "the configuration `FILE` (default: the default settings)")
	c.Flags().StringVar(&addr, "server", "", "a running server, `HOST:PORT`")
	c.Flags().StringVar(&root, "root", "/", "where /proc and /sys are, in a container those of its host")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	who.flags(c.Flags())
	return c
}

// serverFindings asks a server. That it does not answer is a finding, too.
func serverFindings(ctx context.Context, who *login, addr string) []doctor.Finding {
	c, err := who.dial(ctx, addr)
	var v resp.Reply
	if err == nil {
		defer c.Close()
		v, err = c.Do("INFO")
	}
	if err != nil {
		return []doctor.Finding{{Level: doctor.Wrong, About: "server", What: addr + " did not tell its state: " + err.Error(),
			Do: cmp.Or(hint(err), "look into its log")}}
	}
	return doctor.Server(resp.ParseInfo(string(v.Text)))
}

func printFindings(env *Env, found []doctor.Finding, asJSON bool) error {
	var wrong int64
	for _, f := range found {
		if f.Level == doctor.Wrong {
			wrong++
		}
	}
	if asJSON {
		if found == nil {
			found = []doctor.Finding{}
		}
		if err := env.JSON(found); err != nil {
			return err
		}
	} else {
		for _, level := range []doctor.Level{doctor.Wrong, doctor.Advice} {
			for _, f := range found {
				if f.Level == level {
					fmt.Fprintf(env.Out, "%s (%s): %s\n  %s\n", level, f.About, f.What, f.Do)
				}
			}
		}
		if len(found) == 0 {
			fmt.Fprintln(env.Out, "nothing is wrong")
		}
	}
	if wrong > 0 {
		return Damaged(fmt.Errorf("wrong: %d", wrong))
	}
	return nil
}
