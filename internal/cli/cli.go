// Package cli contains the sub-commands of the program, one file each, and their common parts: exit codes, help,
// progress and JSON. A file registers its command in init:
//
//	func init() {
//		register(func(env *Env) *cobra.Command {
//			return &cobra.Command{Use: "check DIR", Short: "Reads a data directory and reports damage", RunE: ...}
//		})
//	}
//
// Commands write results to env.Out and everything else to env.Err, use cmd.Context(), which ends at SIGINT and
// SIGTERM, and return errors instead of printing them. [Damaged], [Partial] and [Usage] select the exit code.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/basaltdb/basalt/internal/progress"
)

// Exit codes of all sub-commands.
const (
	ExitOK      = 0
	ExitError   = 1 // the work failed
	ExitUsage   = 2 // the command line is wrong; nothing was done
	ExitDamage  = 3 // the work was done, and it found damaged data
	ExitPartial = 4 // the work was done except for what the output lists
	// ExitInterrupted is the exit code after SIGINT and SIGTERM, as in shells.
	ExitInterrupted = 130
)

// Env is the interface of a sub-command to the process.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Version  string
	// Width returns the number of columns of the terminal Err, 0 if Err is not a terminal.
	Width func() int
}

// NewEnv returns the environment of this process.
func NewEnv(version string) *Env {
	return &Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version,
		Width: func() int { return progress.Width(os.Stderr) }}
}

// Progress shows the progress of work if Err is a terminal. The caller must call Stop.
func (e *Env) Progress(what string, total int64, unit progress.Unit) *progress.Bar {
	return progress.Start(e.Err, e.Width, what, total, unit)
}

// JSON writes a value to Out, indented, with a line feed.
func (e *Env) JSON(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Damaged gives err the exit code [ExitDamage].
func Damaged(err error) error { return &exitError{ExitDamage, err} }

// Partial gives err the exit code [ExitPartial].
func Partial(err error) error { return &exitError{ExitPartial, err} }

// Usage returns an error with the exit code [ExitUsage].
func Usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// commands make the sub-commands.
var commands = []func(*Env) *cobra.Command{backupCommand, checkCommand, convertConfigCommand, doctorCommand,
	exportCommand, importCommand, inspectCommand, migrateCommand, reslotCommand, restoreCommand, versionCommand}

// own are the sub-commands of cobra; completion scripts call the last two.
var own = []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// Is reports whether a command line, without the program's name, calls a sub-command. All others are the server's.
func Is(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if slices.Contains(own, args[0]) {
		return true
	}
	return slices.ContainsFunc(commands, func(make func(*Env) *cobra.Command) bool {
		c := make(&Env{})
		return c.Name() == args[0] || c.HasAlias(args[0])
	})
}

// Run runs the sub-command args[0] and returns the exit code. It prints an error on one line.
func Run(ctx context.Context, args []string, env *Env) int {
	root := Root(env)
	running := false
	for _, c := range root.Commands() {
		if c.Name() == "help" { // which takes the name of any command
			c.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return Usage("there is no sub-command %q", strings.Join(args, " "))
				}
				return nil
			}
		} else {
			prepare(c, &running)
		}
	}
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code := ExitError
	var chosen *exitError
	switch {
	case errors.As(err, &chosen):
		code = chosen.code
	case !running:
		code = ExitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		code, err = ExitInterrupted, errors.New("interrupted")
	}
	message := strings.ReplaceAll(err.Error(), "\n", " ")
	if h := hint(err); h != "" {
		message = strings.TrimSuffix(message, ".") + ": " + h
	}
	if strings.HasPrefix(message, "accepts ") && !running {
		message = "usage: " + c.UseLine()
	}
	if code == ExitUsage {
		message += "; " + c.CommandPath() + " --help explains it"
	}
	fmt.Fprintf(env.Err, "%s: %s\n", c.CommandPath(), message)
	return code
}

// hint returns what to do about an error of a connection, "" if there is nothing to say.
func hint(err error) string {
	for _, h := range []struct{ text, hint string }{
		{"connection refused", "is a server running there?"},
		{"NOAUTH", "the server wants a password, see --help"},
		{"does not look like a TLS handshake", "the server does not speak TLS at this port"},
		{"this port speaks TLS", "give --tls, or an address that begins with rediss://"},
		{"has closed the connection: EOF", "does it want TLS at this port?"},
		{"signed by unknown authority", "--cacert names the file with the certificate of its authority"},
		{"tls: certificate required",
			"the server wants a certificate of its clients: --cert and --key, or tls-cert-file of one that follows it"},
	} {
		if strings.Contains(err.Error(), h.text) {
			return h.hint
		}
	}
	return ""
}

// prepare makes a command and its sub-commands record that they run: earlier errors are usage errors.
func prepare(c *cobra.Command, running *bool) {
	run := c.RunE
	switch {
	case run != nil:
		c.RunE = func(c *cobra.Command, args []string) error {
			var empty error // a variable that the shell does not know: never the current directory
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && f.Value.String() == "" {
					empty = Usage("--%s is empty", f.Name)
				}
			})
			if empty == nil && slices.Contains(args, "") {
				empty = Usage("an argument is empty")
			}
			if empty != nil {
				return empty
			}
			*running = true
			return run(c, args)
		}
	case c.Run == nil:
		c.RunE = func(*cobra.Command, []string) error { return Usage("wants a sub-command") }
	}
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	for _, sub := range c.Commands() {
		prepare(sub, running)
	}
}

// Root returns the tree of all sub-commands.
func Root(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use: "basalt", Short: "A Redis-compatible server that stores its data in RocksDB",
		Long: "basalt without a sub-command is the server: basalt -c FILE; basalt --help explains its options.",

		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetHelpFunc(help)
	for _, make := range commands {
		root.AddCommand(make(env))
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// List returns a line for each sub-command, for the help of the server.
func List() string {
	var b strings.Builder
	list(&b, Root(&Env{}))
	return b.String()
}
