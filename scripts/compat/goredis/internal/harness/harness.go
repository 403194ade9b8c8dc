// Package harness is what the programs cluster and failover share: their processes, a load of writes that can be
// paused, and how they end.
package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// silent drops go-redis's log of failed connections, which are expected.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Main runs a program in the directory logs; "" = a temporary one. After an error it prints the error and the last
// lines of all logs, and exits with status 1.
func Main(program, logs string, run func(dir string) error) {
	redis.SetLogger(silent{})
	dir := logs
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", program); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
			os.Exit(1)
		}
	}
	err := run(dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		names, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range names {
			fmt.Fprintf(os.Stderr, "--- the end of %s\n%s", filepath.Base(name), lastLines(name, 25))
		}
	}
	if logs == "" {
		os.RemoveAll(dir)
	}
	if err != nil {
		os.Exit(1)
	}
}

func lastLines(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.SplitAfter(string(data), "\n")
	return strings.Join(lines[max(len(lines)-n-1, 0):], "")
}

// Patience is the max time to reach a state. Sentinel waits 8 s before it makes a former master a replica, reads INFO
// every 10 s, and repeats a failover after twice its failover-timeout.
const Patience = 60 * time.Second

// Await waits until a check returns nil.
func Await(what string, check func() error) error {
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v: %w", what, Patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
