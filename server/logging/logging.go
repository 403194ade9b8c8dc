// Package logging makes the server's log: lines for people to read, on stdout or in a file that is rotated, with a
// level that can be changed at run time.
package logging

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// FileName is the name of the log file in the log directory. Rotated files have a time in their name:
// basalt-2006-01-02T15-04-05.000.log.
const FileName = "basalt.log"

// Options are the options of [Open].
type Options struct {
	Targets       []Target // where lines go; none = stdout
	Level         string   // debug, info, warning, error, fatal; empty = info
	RetentionDays int      // days to keep rotated files; -1 = for ever, 0 = only the newest

	stdout, stderr io.Writer // instead of os.Stdout and os.Stderr, for tests
}

// The names of targets that are no directories.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Target is one place that lines go to.
type Target struct {
	Name  string // Stdout, Stderr, or the directory of the log file, which is created when missing
	Level string // lines of a lower level do not go there; empty = all that the log's own level lets through
}

// ParseTargets parses the setting log-dir, in the form of Kvrocks 2.13: targets separated by commas, each with a level
// behind a colon if it has one, as in "/var/log/basalt,stdout:warning". An empty text has no targets. The error names
// the target.
func ParseTargets(text string) ([]Target, error) {
	var targets []Target
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		t := Target{Name: strings.TrimSpace(part)}
		if i := strings.LastIndexByte(t.Name, ':'); i >= 0 {
			t.Name, t.Level = strings.TrimSpace(t.Name[:i]), strings.TrimSpace(t.Name[i+1:])
			if _, ok := levels[t.Level]; !ok {
				return nil, fmt.Errorf("no such level: %q", t.Level)
			}
		}
		if t.Name == "" {
			return nil, errors.New("a target is empty")
		}
		for _, std := range []string{Stdout, Stderr} {
			if strings.EqualFold(t.Name, std) {
				t.Name = std
			}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// Logger is the server's log.
type Logger struct {
	*zap.Logger
	level zap.AtomicLevel
	files []*rotator
}

// levels are the names of levels, those of Kvrocks.
var levels = map[string]zapcore.Level{
	"debug": zap.DebugLevel, "info": zap.InfoLevel, "warning": zap.WarnLevel, "error": zap.ErrorLevel,
	"fatal": zap.FatalLevel,
}

// Open starts a log. An error names the directory or the level.
func Open(o Options) (*Logger, error) {
	l := &Logger{level: zap.NewAtomicLevel()}
	if o.Level != "" {
		if err := l.SetLevel(o.Level); err != nil {
			return nil, err
		}
	}
	targets := o.Targets
	if len(targets) == 0 {
		targets = []Target{{Name: Stdout}}
	}
	var cores []zapcore.Core
	for _, t := range targets {
		sink, err := l.sink(o, t.Name)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("log-dir: %w", err)
		}
		core := zapcore.NewCore(encoder(), sink, l.level)
		if t.Level != "" {
			if core, err = zapcore.NewIncreaseLevelCore(core, atLeast{l.level, levels[t.Level]}); err != nil {
				l.Close()
				return nil, fmt.Errorf("log-dir: %w", err)
			}
		}
		cores = append(cores, core)
	}
	l.Logger = zap.New(zapcore.NewTee(cores...))
	return l, nil
}

// sink opens a target.
func (l *Logger) sink(o Options, name string) (zapcore.WriteSyncer, error) {
	std := map[string]io.Writer{Stdout: cmp.Or[io.Writer](o.stdout, &stream{File: os.Stdout}),
		Stderr: cmp.Or[io.Writer](o.stderr, &stream{File: os.Stderr})}
	if w := std[name]; w != nil {
		return zapcore.Lock(zapcore.AddSync(w)), nil
	}
	file, err := openRotator(filepath.Join(name, FileName), o.RetentionDays, time.Now)
	if err != nil {
		return nil, err
	}
	l.files = append(l.files, file)
	return file, nil
}

// atLeast lets through what both levels do.
type atLeast struct {
	log zap.AtomicLevel
	own zapcore.Level
}

func (a atLeast) Enabled(level zapcore.Level) bool {
	return a.own.Enabled(level) && a.log.Enabled(level)
}

// encoder writes lines such as
//
//	2006-01-02T15:04:05.000Z0700 info server ready {"port": 6666}
func encoder() zapcore.Encoder {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z0700")
	c.EncodeLevel = func(l zapcore.Level, enc zapcore.PrimitiveArrayEncoder) {
		if l == zap.WarnLevel {
			enc.AppendString("warning")
			return
		}
		zapcore.LowercaseLevelEncoder(l, enc)
	}
	c.EncodeDuration = zapcore.StringDurationEncoder
	c.ConsoleSeparator = " "
	return zapcore.NewConsoleEncoder(c)
}

// SetLevel sets the lowest level that is logged.
func (l *Logger) SetLevel(name string) error {
	level, ok := levels[name]
	if !ok {
		return fmt.Errorf("log-level: no such level: %q", name)
	}
	l.level.SetLevel(level)
	return nil
}

// SetRetentionDays sets how long rotated files are kept, from the next rotation on.
func (l *Logger) SetRetentionDays(days int) {
	for _, f := range l.files {
		f.setRetention(days)
	}
}

// Reopen opens the log files anew, for programs that rename or delete log files.
func (l *Logger) Reopen() {
	for _, f := range l.files {
		f.reopen()
	}
}

// Close writes what is buffered and closes the files. Stdout and stderr are not ours to close, and a terminal cannot be
// synced.
func (l *Logger) Close() error {
	var err error
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
