// Package conffile reads and rewrites configuration files: a kvrocks.toml or a kvrocks.conf as a list of settings with
// their lines, and with other values in their places.
package conffile

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Error is an error in a file or on the command line. Its text is one line.
type Error struct {
	File string // as given; "command line"
	Line int    // from 1; 0 = not known
	Key  string // as given; empty when it is not about one key
	Err  error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Key != "" {
		b.WriteString(": " + Printable(e.Key))
	}
	return b.String() + ": " + Printable(e.Err.Error())
}

func (e *Error) Unwrap() error { return e.Err }

// Printable makes a string fit for one line of the log.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// Errors of entries.
var (
	ErrUnknown = errors.New("unknown key")
	ErrNoValue = errors.New("wants a value")
	ErrIgnored = errors.New("has no value: the line is ignored")
	errUTF16   = errors.New("is UTF-16: save it as UTF-8")
)

// Entry is one setting of a file or of the command line.
type Entry struct {
	Key, Text string
	Line      int // from 1; 0 = not of a file
}

// NamespacePrefix starts the keys of namespaces: namespace.NAME TOKEN.
const NamespacePrefix = "namespace."

// CutNamespace returns the name of the namespace in a key; ok is false for other keys.
func CutNamespace(key string) (name string, ok bool) {
	n := len(NamespacePrefix)
	if len(key) <= n || !strings.EqualFold(key[:n], NamespacePrefix) {
		return "", false
	}
	return key[n:], true
}

// renameCommand is the setting with its own table in a kvrocks.toml.
const renameCommand = "rename-command"

// Format is the grammar of a file.
type Format int

const (
	TOML Format = iota
	Conf
)

// Entries reads a file. Its errors are of type [*Error], without the name of the file.
func (f Format) Entries(data []byte) ([]Entry, error) {
	head := string(data[:min(2, len(data))])
	if head == "\xfe\xff" || head == "\xff\xfe" || strings.Contains(head, "\x00") {
		return nil, &Error{Err: errUTF16}
	}
	if f == TOML {
		return tomlEntries(data)
	}
	return confEntries(data)
}

// tomlLine matches a line that occurs in TOML and not in a kvrocks.conf: a table, or a key and an equals sign.
var tomlLine = regexp.MustCompile(`^(\[|("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*(\.\s*("[^"]*"|[A-Za-z0-9_-]+)\s*)*=)`)

// Detect determines the format by the file's extension, otherwise by the first line that is neither blank nor a
// comment.
func Detect(file string, data []byte) Format {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".toml":
		return TOML
	case ".conf":
		return Conf
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if tomlLine.MatchString(line) {
			return TOML
		}
		break
	}
	return Conf
}

// kvrocksKeys are keys that identify a kvrocks.conf, in addition to those of RocksDB and of namespaces.
var kvrocksKeys = []string{"workers", "db-name", "log-dir", "log-level", "backup-dir", "redis-databases",
	"repl-namespace-enabled", "max-db-size", "max-io-mb", "compaction-checker-cron", "compaction-checker-range",
	"slave-empty-db-before-fullsync", "master-use-repl-port", "migrate-speed", "redis-cursor-compatible"}

// redisKeys are keys that only a redis.conf has, in addition to those that the table marks so.
var redisKeys = []string{"databases", "save", "appendonly", "protected-mode", "include", "loadmodule"}

// LooksLikeRedis reports whether a file is a redis.conf. If the content fits both, the file's name decides.
func LooksLikeRedis(file string, data []byte) bool {
	redis := strings.Contains(strings.ToLower(filepath.Base(file)), "redis")
	for _, line := range Lines(data) {
		key, _, _ := ParseLine(line)
		key = strings.ToLower(key)
		if strings.HasPrefix(key, "rocksdb.") || strings.HasPrefix(key, NamespacePrefix) ||
			slices.Contains(kvrocksKeys, key) {
			return false
		}
		s, _, ok := setting.Find(key)
		redis = redis || ok && s.Redis || slices.Contains(redisKeys, key)
	}
	return redis
}
