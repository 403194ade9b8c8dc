// Redissuite runs the test suite of Redis 7.2 against a server and counts what passes.
//
//	redissuite SOURCE HOST:PORT [UNIT ...]
//
// SOURCE is a source directory of Redis 7.2, in which nothing is changed but tests/tmp. UNIT is a name such as
// unit/type/list; without one all units of tests/test_helper.tcl run, one after the other. The data of the server are
// deleted. tclsh 8.5 or later must be on the PATH.
//
// It prints a line a unit, under it the tests that failed, and the sums. It exits with 1 when a unit has aborted or has
// not ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tags exclude tests that need DEBUG, replicas or RDB files, and tests that need much time or memory.
const tags = "-needs:debug -needs:repl -needs:save -needs:reset -needs:config-maxmemory -cluster:skip -slow " +
	"-large-memory"

// patience is the max time of one unit.
const patience = 5 * time.Minute

var (
	colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	unit   = regexp.MustCompile(`(?m)^    (unit/\S+)$`)
	passed = regexp.MustCompile(`(?m)^\[ok\]: `)
	failed = regexp.MustCompile(`(?m)^\[err\]: (.*) in tests/`)
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "redissuite:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: redissuite SOURCE HOST:PORT [UNIT ...]")
	}
	source := args[0]
	host, port, err := net.SplitHostPort(args[1])
	if err != nil {
		return err
	}
	units := args[2:]
	if len(units) == 0 {
		list, err := os.ReadFile(filepath.Join(source, "tests", "test_helper.tcl"))
		if err != nil {
			return err
		}
		for _, m := range unit.FindAllSubmatch(list, -1) {
			if name := string(m[1]); !strings.HasPrefix(name, "unit/cluster/") { // these start clusters
				units = append(units, name)
			}
		}
	}
	var ok, bad, aborted int
	for _, name := range units {
		out, err := runUnit(source, host, port, name)
		if err != nil {
			return err
		}
		n, errs, ended := count(out)
		fmt.Printf("%-26s %5d passed %4d failed", name, n, len(errs))
		if !ended {
			fmt.Print("  ABORTED")
			aborted++
		}
		fmt.Println()
		for _, test := range errs {
			fmt.Println("    " + test)
		}
		ok, bad = ok+n, bad+len(errs)
	}
	fmt.Printf("%d passed, %d failed, %d units aborted\n", ok, bad, aborted)
	if aborted > 0 {
		return errors.New("units have aborted")
	}
	return nil
}

// count parses the output of a unit: the number of passed tests, the failed tests, and whether the unit has reached its
// end.
func count(out string) (ok int, errs []string, ended bool) {
	for _, m := range failed.FindAllStringSubmatch(out, -1) {
		errs = append(errs, m[1])
	}
	ended = strings.Contains(out, "The End") && !strings.Contains(out, "[exception]")
	return len(passed.FindAllString(out, -1)), errs, ended
}

// runUnit returns the output of a unit, without colours.
func runUnit(source, host, port, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tclsh", "tests/test_helper.tcl", "--host", host, "--port", port, "--singledb",
		"--ignore-encoding", "--ignore-digest", "--tags", tags, "--single", name)
	cmd.Dir = source
	cmd.WaitDelay = time.Second // its clients may keep the pipe open
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && ctx.Err() == nil {
		return "", err
	}
	return colour.ReplaceAllString(string(out), ""), nil
}
