package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/server/resp"
)

// run runs a command line without a terminal.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t.Context(), args...)
}

func runWith(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Run(ctx, args, &Env{In: strings.NewReader(""), Out: &out, Err: &err, Version: "v1",
		Width: func() int { return 0 }})
	return code, out.String(), err.String()
}

func TestVersion(t *testing.T) {
	code, out, stderr := run(t, "version")
	if code != ExitOK || !strings.HasPrefix(out, "basalt v1\nRocksDB ") || stderr != "" {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	code, out, _ = run(t, "version", "--json")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); code != ExitOK || err != nil || v["basalt"] != "v1" || v["rocksdb"] == "" {
		t.Errorf("%d, %v, %q", code, err, out)
	}
}

// The server's command line is not taken for a sub-command's.
func TestIs(t *testing.T) {
	for args, want := range map[string]bool{"": false, "-c": false, "--version": false, "-h": false, "--port": false,
		"kvrocks.conf": false, "version": true, "help": true, "completion": true, "__complete": true} {
		if Is(strings.Fields(args)) != want {
			t.Errorf("%q: %v", args, !want)
		}
	}
}

// testing commands end in each way.
func endings(t *testing.T) {
	before := commands
	t.Cleanup(func() { commands = before })
	commands = append(slices.Clone(commands), func(env *Env) *cobra.Command {
		group := &cobra.Command{Use: "end", Short: "Ends"}
		for name, err := range map[string]error{
			"well": nil, "badly": errors.New("the disk\nis full"), "damaged": Damaged(errors.New("one file")),
			"partly": Partial(errors.New("one key")), "used": Usage("--at wants a time"),
			"plain":     fmt.Errorf("x: %w", resp.ReplyError("ERR this port speaks TLS")),
			"unreached": errors.New("connection refused"), "outside": errors.New("NOAUTH Authentication required."),
		} {
			c := &cobra.Command{Use: name + " [N]", Short: "Ends so", Args: cobra.MaximumNArgs(1),
				RunE: func(*cobra.Command, []string) error { return err }}
			c.Flags().Int("count", 1, "how often")
			group.AddCommand(c)
		}
		group.AddCommand(&cobra.Command{Use: "waiting", RunE: func(c *cobra.Command, _ []string) error {
			<-c.Context().Done()
			return c.Context().Err()
		}})
		return group
	})
}

func TestExitCodes(t *testing.T) {
	endings(t)
	for _, tt := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"end well", ExitOK, ""},
		{"end badly", ExitError, "basalt end badly: the disk is full\n"},
		{"end damaged", ExitDamage, "basalt end damaged: one file\n"},
		{"end partly", ExitPartial, "basalt end partly: one key\n"},
		{"end used", ExitUsage, "basalt end used: --at wants a time; basalt end used --help explains it\n"},
		{"end badly --nosuch", ExitUsage,
			"basalt end badly: unknown flag: --nosuch; basalt end badly --help explains it\n"},
		{"end badly 1 2", ExitUsage,
			"basalt end badly: usage: basalt end badly [N] [flags]; basalt end badly --help explains it\n"},
		{"end unreached", ExitError, "basalt end unreached: connection refused: is a server running there?\n"},
		{"end plain", ExitError,
			"basalt end plain: x: ERR this port speaks TLS: give --tls, or an address that begins with rediss://\n"},
		{"end badly --count many", ExitUsage, `basalt end badly: invalid argument "many" for "--count" flag: `},
		{"end outside", ExitError, "basalt end outside: NOAUTH Authentication required: the server wants a password, "},
		{"end", ExitUsage, "basalt end: wants a sub-command; basalt end --help explains it\n"},
		{"end other", ExitUsage, `basalt end: unknown command "other" for "basalt end"; basalt end --help explains it`},
		{"help nosuch", ExitUsage, `basalt help: there is no sub-command "nosuch"; `},
		{"help end other", ExitUsage, `basalt help: there is no sub-command "end other"; `},
		{"doctor --server localhost", ExitUsage, "basalt doctor: --server wants HOST:PORT; "},
		{"migrate --from h:1 --to h:2/3", ExitUsage, `basalt migrate: --to: "h:2/3" is not HOST:PORT, `},
		{"inspect --top -1 .", ExitUsage, "basalt inspect: a number is negative; "},
		{"inspect --match x* .", ExitUsage, "basalt inspect: --match is for HOST:PORT; "},
		{"inspect --namespace n h:1", ExitUsage, "basalt inspect: --namespace is for --raw; "},
		{"backup prune --keep-last 1 --keep-daily -1 r", ExitUsage, "basalt backup prune: a number is negative; "},
		{"backup --from h:1 --to r --every 24h", ExitUsage, "basalt backup: --every is for --follow; "},
		{"backup --from h:1 --to r --interval 1s", ExitUsage, "basalt backup: --interval is for --follow; "},
		{"version 1", ExitUsage, `basalt version: unknown command "1" for "basalt version"; `},
	} {
		code, out, stderr := run(t, strings.Fields(tt.args)...)
		if code != tt.code || !strings.HasPrefix(stderr, tt.stderr) || out != "" || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: %d, %q, %q", tt.args, code, out, stderr)
		}
	}
	for _, args := range [][]string{
		{"backup", "--from", "h:1", "--to", ""}, {"check", ""}, {"restore", "--from=", "--to=d"},
	} {
		if code, _, stderr := run(t, args...); code != ExitUsage || !strings.Contains(stderr, " is empty; ") {
			t.Errorf("%q: %d, %q", args, code, stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, stderr := runWith(ctx, "end", "waiting"); code != ExitInterrupted ||
		stderr != "basalt end waiting: interrupted\n" {
		t.Errorf("interrupted: %d, %q", code, stderr)
	}
}

func TestHelp(t *testing.T) {
	endings(t)
	code, out, _ := run(t, "end", "badly", "--help")
	want := "usage: basalt end badly [N] [flags]\n\nEnds so.\n\nFlags:\n      --count int   how often (default 1)\n" +
		"  -h, --help        help for badly\n"
	if code != ExitOK || out != want {
		t.Errorf("%d, %q", code, out)
	}
	if _, out, _ = run(t, "help", "end"); !strings.Contains(out, "\nSub-commands:\n  badly           Ends so\n") {
		t.Errorf("%q", out)
	}
	if !strings.Contains(List(), "  version         Prints the versions of basalt, RocksDB and Go\n") {
		t.Errorf("%q", List())
	}
	if _, out, _ = run(t, "__complete", "end", "ba"); !strings.HasPrefix(out, "badly\tEnds so\n") {
		t.Errorf("completion: %q", out)
	}
}

// Every command says what it does in a sentence.
func TestDescriptions(t *testing.T) {
	for _, make := range commands {
		if c := make(&Env{}); c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: %q", c.Name(), c.Short)
		}
	}
}
