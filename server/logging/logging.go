// Package logging makes the server's log: lines for people to read, on stdout or in a file that is rotated, with a
// level that can be changed at run time.
package logging

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// FileName is the name of the log file in the log directory. Rotated files have a time in their name:
// basalt-2006-01-02T15-04-05.000.log.
const FileName = "basalt.log"

// Options are the options of [Open].
type Options struct {
	Dir           string // of the log file, created when missing; empty = stdout
	Level         string // info, warning, error, fatal; empty = info
	RetentionDays int    // days to keep rotated files; -1 = for ever, 0 = only the newest

	stdout io.Writer // instead of os.Stdout, for tests
}

// Logger is the server's log.
type Logger struct {
	*zap.Logger
	level zap.AtomicLevel
	file  *rotator // nil = stdout
}

// levels are the names of levels, those of Kvrocks.
var levels = map[string]zapcore.Level{
	"info": zap.InfoLevel, "warning": zap.WarnLevel, "error": zap.ErrorLevel, "fatal": zap.FatalLevel,
}

// Open starts a log. An error names the directory or the level.
func Open(o Options) (*Logger, error) {
	l := &Logger{level: zap.NewAtomicLevel()}
	if o.Level != "" {
		if err := l.SetLevel(o.Level); err != nil {
			return nil, err
		}
	}
	var sink zapcore.WriteSyncer
	switch {
	case o.Dir != "":
		file, err := openRotator(filepath.Join(o.Dir, FileName), o.RetentionDays, time.Now)
		if err != nil {
			return nil, fmt.Errorf("log-dir: %w", err)
		}
		l.file, sink = file, file
	case o.stdout != nil:
		sink = zapcore.Lock(zapcore.AddSync(o.stdout))
	default:
		sink = zapcore.Lock(os.Stdout)
	}
	l.Logger = zap.New(zapcore.NewCore(encoder(), sink, l.level))
	return l, nil
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

// SetRetentionDays sets how long rotated files are kept, from the next rotation on. It does nothing on stdout.
func (l *Logger) SetRetentionDays(days int) {
	if l.file != nil {
		l.file.setRetention(days)
	}
}

// Close writes what is buffered and closes the file.
func (l *Logger) Close() error {
	if l.file == nil {
		return nil // stdout is not ours to close, and a terminal cannot be synced
	}
	return l.file.Close()
}

// Noisy returns a logger for messages that may come in floods: of each message (by its text and level) the first
// few of an interval are logged and the others dropped.
func Noisy(l *zap.Logger, first int, interval time.Duration) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, interval, first, 0)
	}))
}
