package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/server/config/convert"
)

func convertConfigCommand(env *Env) *cobra.Command {
	var to, from string
	c := &cobra.Command{
		Use: "convert-config FILE", Short: "Converts a redis.conf or kvrocks.conf to a kvrocks.toml",
		Args: cobra.ExactArgs(1),
		Long: `Writes a kvrocks.toml with the settings of a redis.conf or a kvrocks.conf that differ from the default, each
with its description. Comments at the end list the lines that were not converted and why; the exit code is then 4.
FILE - is the standard input.

Settings with other names in Redis are renamed: databases, loglevel, logfile, appendfsync. A setting whose default
differs from Redis's (bind, port, databases, dir) is always written.`,
		Example: `  basalt convert-config /etc/redis/redis.conf --to kvrocks.toml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch from {
			case "", "redis", "kvrocks":
			default:
				return Usage("--from is redis or kvrocks")
			}
			return convertConfig(env, args[0], from, to)
		},
	}
	c.Flags().StringVar(&to, "to", "-", "the `FILE` to write, which must not exist")
	c.Flags().StringVar(&from, "from", "", "read the file as a redis or kvrocks configuration (default: as it looks)")
	return c
}

func convertConfig(env *Env, file, from, to string) error {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(env.In)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return err
	}
	r, err := convert.File(file, data, from)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if to == "-" {
		_, err = env.Out.Write(r.TOML)
	} else {
		err = writeNew(to, r.TOML)
	}
	if err == nil && len(r.Left) > 0 {
		return Partial(fmt.Errorf("%s of %s not carried over: the end of the output lists them",
			plural(int64(len(r.Left)), "setting"), file))
	}
	return err
}

// writeNew writes a file that may contain passwords and must not exist yet. After a failure no file is left.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}
