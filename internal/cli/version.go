package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/engine"
)

func versionCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Prints the versions of basalt, RocksDB and Go",
		RunE: func(*cobra.Command, []string) error {
			rocks, _ := engine.RocksDB()
			v := struct {
				Basalt  string `json:"basalt"`
				RocksDB string `json:"rocksdb"`
				Go      string `json:"go"`
			}{env.Version, rocks, runtime.Version()}
			if asJSON {
				return env.JSON(v)
			}
			_, err := fmt.Fprintf(env.Out, "basalt %s\nRocksDB %s\n%s\n", v.Basalt, v.RocksDB, v.Go)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
