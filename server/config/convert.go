package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/basaltdb/basalt/server/resp"
)

// A redis.conf differs from a kvrocks.conf: a line is split into words as a command line is, only lines that begin with
// "#" are comments, and the units k, m and g of a size are powers of 1000.

// Conversion is a configuration file of Kvrocks or Redis as a kvrocks.toml.
type Conversion struct {
	TOML []byte
	// Left are the lines of the file that are not in it, in their order, each with the reason.
	Left []Left
	// Redis tells that the file was read as a redis.conf.
	Redis bool
}

// Left is a setting that was not carried over.
type Left struct {
	Line   int    // from 1
	Text   string // its key and value; secrets are left out
	Reason string
}

func (l Left) String() string { return fmt.Sprintf("line %d: %s: %s", l.Line, l.Text, l.Reason) }

// ErrTOML is returned by [Convert] for a file that needs no conversion.
var ErrTOML = errors.New("is a kvrocks.toml already")

// Convert turns a kvrocks.conf or a redis.conf into a kvrocks.toml with the values that are not the default, and with
// comments about what was left. file is the file's name; dialect is "redis", "kvrocks", or empty: the content decides.
// Nothing in the file makes it fail except a contradiction that no single line can be left out for.
func Convert(file string, data []byte, dialect string) (*Conversion, error) {
	if detectFormat(file, data) == tomlFile {
		return nil, ErrTOML
	}
	v := &converter{Conversion: Conversion{Redis: dialect == "redis" || dialect == "" && looksLikeRedis(file, data)}}
	v.read(data)
	l, err := v.load()
	if err != nil {
		return nil, err
	}
	v.leaveInert(l)
	slices.SortStableFunc(v.Left, func(a, b Left) int { return a.Line - b.Line })
	if v.TOML, err = v.write(filepath.Base(file), l); err != nil {
		return nil, err
	}
	return &v.Conversion, nil
}

type converter struct {
	Conversion
	entries    []entry
	appendOnly bool
}

// kvrocksKeys are keys of which any shows that a file is a kvrocks.conf, beside those of RocksDB and of namespaces.
var kvrocksKeys = []string{"workers", "db-name", "log-dir", "log-level", "backup-dir", "redis-databases",
	"repl-namespace-enabled", "max-db-size", "max-io-mb", "compaction-checker-cron", "compaction-checker-range",
	"slave-empty-db-before-fullsync", "master-use-repl-port", "migrate-speed", "redis-cursor-compatible"}

// redisKeys are keys that only a redis.conf has, beside those that the table marks so.
var redisKeys = []string{"databases", "save", "appendonly", "protected-mode", "include", "loadmodule"}

// looksLikeRedis reports whether a file is a redis.conf. One that could be either goes by its name.
func looksLikeRedis(file string, data []byte) bool {
	redis := strings.Contains(strings.ToLower(filepath.Base(file)), "redis")
	for _, line := range confLines(data) {
		key, _, _ := parseConfLine(line)
		key = strings.ToLower(key)
		if strings.HasPrefix(key, "rocksdb.") || strings.HasPrefix(key, namespacePrefix) ||
			slices.Contains(kvrocksKeys, key) {
			return false
		}
		s, _, ok := find(key)
		redis = redis || ok && s.Redis || slices.Contains(redisKeys, key)
	}
	return redis
}

// redisDefaults are values of Redis that a redis.conf without them relies on and that are others here.
var redisDefaults = []entry{{key: "bind", text: "* -::*"}, {key: "port", text: "6379"}, {key: "databases", text: "16"},
	{key: "dir", text: "./"}}

// read takes the lines apart, translates them and keeps those that are right by themselves.
func (v *converter) read(data []byte) {
	var all []entry
	if v.Redis {
		all = slices.Clone(redisDefaults)
	}
	for i, line := range confLines(data) {
		e, err := v.parse(line)
		e.line = i + 1
		switch {
		case err != nil:
			v.leave(e, err.Error())
		case e.key != "":
			all = append(all, e)
		}
	}
	for _, e := range all { // for what appendfsync and logfile mean
		switch strings.ToLower(e.key) {
		case "appendonly":
			v.appendOnly = strings.EqualFold(e.text, "yes")
		case "cluster-enabled":
			if v.Redis && strings.EqualFold(e.text, "yes") { // Redis ignores databases then
				all = slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return strings.EqualFold(e.key, "databases") })
			}
		}
	}
	for _, e := range all {
		v.add(e)
	}
}

// parse takes a line apart; a line without a setting has no key.
func (v *converter) parse(line string) (e entry, err error) {
	trimmed := strings.Trim(line, blanks)
	if trimmed == "" || trimmed[0] == '#' {
		return entry{}, nil
	}
	key, text, err := parseConfLine(line)
	if err == nil && isUserKey(key) {
		return entry{key: key, text: text}, nil
	}
	if !v.Redis {
		if err != nil {
			key, _, _ = strings.Cut(trimmed, " ")
		}
		if _, lacks := lacksValue(line); lacks {
			err = errIgnored
		} else if err == nil && ignored(key, text) {
			key = ""
		}
		return entry{key: key, text: text}, err
	}
	args, ok := resp.SplitArgs([]byte(trimmed), nil)
	if !ok || len(args) == 0 {
		key, _, _ = strings.Cut(trimmed, " ")
		return entry{key: key}, errors.New("the quotes are not balanced")
	}
	e.key = string(args[0])
	if len(args) == 1 {
		return e, errNoValue
	}
	words := make([]string, len(args)-1)
	for i, a := range args[1:] {
		words[i] = string(a)
		if len(a) == 0 && len(words) > 1 {
			words[i] = `""`
		}
	}
	e.text = strings.Join(words, " ")
	if s, _, ok := find(e.key); ok && s.Kind == Bytes {
		if n, ok := parseRedisMemory(e.text); ok {
			e.text = strconv.FormatInt(n, 10)
		}
	}
	return e, nil
}

// leave notes a setting that is not carried over.
func (v *converter) leave(e entry, reason string) {
	text := printable(e.key)
	secret := isUserKey(e.key)
	for _, part := range []string{"pass", "auth", namespacePrefix, "rename-command"} {
		secret = secret || strings.Contains(strings.ToLower(e.key), part)
	}
	if e.text != "" && !secret {
		text += " " + printable(e.text)
	}
	v.Left = append(v.Left, Left{e.line, text, printable(reason)})
}

// reasons tell of keys that mean nothing here, or not what the table says.
var reasons = map[string]string{
	"include":          "included files are not read: convert each by itself",
	"loadmodule":       "there are no modules; what Kvrocks builds in is built in",
	"maxmemory":        errEviction.Error(),
	"maxmemory-policy": errEviction.Error(),
	"dbfilename":       "backups are directories in backup-dir",
	"masteruser":       "a replica signs in with masterauth alone",
}

// logLevels are the levels of Redis's loglevel.
var logLevels = map[string]string{"debug": "debug", "verbose": "info", "notice": "info", "warning": "warning",
	"nothing": "fatal"}

// add takes an entry over under the name that it has here, or leaves it.
func (v *converter) add(e entry) {
	given := e
	switch key := strings.ToLower(e.key); key {
	case "databases":
		if e.text == "1" {
			e.text = "0"
		}
		e.key = "redis-databases"
	case "loglevel":
		level, ok := logLevels[strings.ToLower(e.text)]
		if !ok {
			v.leave(given, "not a level")
			return
		}
		e.key, e.text = "log-level", level
	case "logfile":
		if e.text == "" {
			return // the standard output, as here
		}
		e.key, e.text = "log-dir", filepath.Dir(e.text)
		if e.text == "." {
			e.text = "" // the base directory, which is Redis's working directory
		}
	case "appendfsync":
		switch {
		case !v.appendOnly:
			return
		case strings.EqualFold(e.text, "always"):
			e.key, e.text = "rocksdb.write_options.sync", "yes"
		case strings.EqualFold(e.text, "everysec"):
			v.leave(given, "the log is synced before every reply (rocksdb.write_options.sync) or when the system does it")
			return
		}
	case "appendonly":
		return // there is always a log
	case "save":
		if e.text != "" {
			v.leave(given, table[index("save")].Inert+"; bgsave-cron makes backups")
		}
		return
	case "include", "loadmodule":
		v.leave(given, reasons[key])
		return
	}
	if !utf8.ValidString(e.key) || !utf8.ValidString(e.text) {
		v.leave(given, errTOMLUTF8.Error())
		return
	}
	if old := renamed(e); old != "" && slices.ContainsFunc(v.entries, func(o entry) bool { return renamed(o) == old }) {
		v.leave(given, "the command is renamed already")
		return
	}
	l := newConvertLoader()
	if err := l.add("", e, false); err != nil {
		reason := errors.Unwrap(err)
		if errors.Is(err, errUnknown) && foreign[strings.ToLower(e.key)] {
			reason = errors.New("a setting of another version of Kvrocks")
		}
		v.leave(given, reason.Error())
		return
	}
	v.entries = append(v.entries, e)
}

// renamed returns which command an entry renames, empty if none.
func renamed(e entry) string {
	if words := strings.Fields(e.text); len(words) > 0 && strings.EqualFold(e.key, table[renameCommand].Name) {
		return words[0]
	}
	return ""
}

func newConvertLoader() *loader {
	l := &loader{c: Default(), given: map[int]entry{}, files: map[int]string{}}
	l.st = l.c.state.Load().clone()
	return l
}

// load applies the rules between settings: what they refuse is left.
func (v *converter) load() (*loader, error) {
	for {
		l := newConvertLoader()
		at, err := -1, error(nil)
		for i, e := range v.entries {
			if err = l.add("", e, false); err != nil {
				at = i
				break
			}
		}
		if err == nil {
			if err = l.finish(); err == nil {
				return l, nil
			}
			var e *Error
			if !errors.As(err, &e) {
				return nil, err
			}
			refused := func(have entry) bool {
				if e.Key == table[requirePass].Name { // the password stays; the tokens that need another one go
					pass := l.st.values[requirePass].text
					return strings.HasPrefix(strings.ToLower(have.key), namespacePrefix) &&
						(pass == "" || have.text == pass || have.text == l.st.values[masterAuth].text)
				}
				s, _, ok := find(have.key)
				return ok && s.Name == e.Key
			}
			at = slices.IndexFunc(v.entries, refused)
		}
		if at < 0 {
			return nil, err
		}
		v.leave(v.entries[at], errors.Unwrap(err).Error())
		v.entries = slices.Delete(v.entries, at, at+1)
	}
}

// leaveInert leaves settings without effect: those whose value is not the default, for only these asked for something.
func (v *converter) leaveInert(l *loader) {
	for i, s := range table {
		e, given := l.given[i]
		if !given || s.Inert == "" {
			continue
		}
		delete(l.given, i)
		if l.st.values[i].text == s.Default {
			continue
		}
		reason := "without effect: " + s.Inert
		if r, ok := reasons[s.Name]; ok {
			reason = r
		}
		v.leave(e, reason)
	}
}

// write writes the kvrocks.toml.
func (v *converter) write(name string, l *loader) ([]byte, error) {
	var b strings.Builder
	kind := "kvrocks.conf"
	if v.Redis {
		kind = "redis.conf"
	}
	fmt.Fprintf(&b, "# From %s, read as a %s: the settings that are not the default.\n", printable(name), kind)
	for _, g := range groups {
		if err := writeGroup(&b, g, l); err != nil {
			return nil, err
		}
	}
	if err := writeTables(&b, l); err != nil {
		return nil, err
	}
	if len(v.Left) > 0 {
		b.WriteString("\n# Not carried over:\n")
		for _, left := range v.Left {
			b.WriteString("# " + strings.ToValidUTF8(left.String(), "?") + "\n")
		}
	}
	data := []byte(b.String())
	// The proof: the file says what was read.
	back := newConvertLoader()
	entries, err := tomlEntries(data)
	for _, e := range entries {
		if err == nil {
			err = back.add("", e, false)
		}
	}
	if err == nil {
		err = back.finish()
	}
	if err != nil {
		return nil, err
	}
	for i := range table {
		if have := back.st.values[i]; table[i].Inert == "" && table[i].Kind != Multi && have != l.st.values[i] {
			return nil, fmt.Errorf("%s cannot be written", table[i].Name)
		}
	}
	return data, nil
}

// writeGroup writes the settings of a group that were given and are not the default.
func writeGroup(b *strings.Builder, g group, l *loader) error {
	head := false
	for _, s := range g.settings {
		_, i, _ := find(s.Name)
		val := l.st.values[i]
		// A bind that is not written is none where there is a Unix socket.
		forced := i == bind && l.st.values[unixSocket].text != ""
		if _, given := l.given[i]; !given || s.Kind == Multi || val.text == s.Default && !forced {
			continue
		}
		if !head {
			head = true
			if strings.HasPrefix(g.title, "[") {
				fmt.Fprintf(b, "\n%s\n", g.title)
			} else {
				fmt.Fprintf(b, "\n### %s\n\n", g.title)
			}
		}
		text, err := tomlValue(&s, val, false)
		if err != nil {
			return fmt.Errorf("%s %w", s.Name, err)
		}
		fmt.Fprintf(b, "# %s\n%s = %s\n", s.Comment, s.Name[strings.LastIndexByte(s.Name, '.')+1:], text)
	}
	return nil
}

// writeTables writes namespaces, renamed commands and users.
func writeTables(b *strings.Builder, l *loader) error {
	write := func(head string, pairs [][2]string) error {
		for i, p := range pairs {
			if i == 0 {
				fmt.Fprintf(b, "\n[%s]\n", head)
			}
			key, err := tomlKey(p[0])
			if err != nil {
				return fmt.Errorf("%s: %w", head, err)
			}
			text, err := quoteTOML(p[1])
			if err != nil {
				return fmt.Errorf("%s: %w", head, err)
			}
			fmt.Fprintf(b, "%s = %s\n", key, text)
		}
		return nil
	}
	var namespaces, renames, users [][2]string
	for _, name := range sortedKeys(l.st.tokens) {
		namespaces = append(namespaces, [2]string{name, l.st.tokens[name]})
	}
	for _, line := range lines(l.st.values[renameCommand].text) {
		words := strings.Fields(line)
		renames = append(renames, [2]string{words[0], strings.Trim(words[1], `"'`)})
	}
	for _, u := range l.c.users {
		users = append(users, [2]string{u.Name, joinArgs(u.Rules)})
	}
	if err := write("namespace", namespaces); err != nil {
		return err
	}
	if err := write(table[renameCommand].Name, renames); err != nil {
		return err
	}
	return write(userKey, users)
}
