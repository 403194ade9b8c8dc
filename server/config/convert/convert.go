// Package convert turns the kvrocks.conf or redis.conf of another server into a kvrocks.toml.
package convert

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
	"github.com/basaltdb/basalt/server/resp"
)

// A redis.conf differs from a kvrocks.conf: a line is split into words as a command line is, only lines that begin with
// "#" are comments, and the units k, m and g of a size are powers of 1000.

// Result is a kvrocks.toml made from a configuration file of Kvrocks or Redis.
type Result struct {
	TOML []byte
	// Left lists the lines of the file that were not carried over, in order, with reasons.
	Left []Left
	// Redis: the file was parsed as a redis.conf.
	Redis bool
}

// Left is a setting that was not carried over.
type Left struct {
	Line   int    // from 1
	Text   string // its key and value; secrets are left out
	Reason string
}

func (l Left) String() string { return fmt.Sprintf("line %d: %s: %s", l.Line, l.Text, l.Reason) }

// ErrTOML is returned by [File] for a file that needs no conversion.
var ErrTOML = errors.New("is a kvrocks.toml already")

// File converts a kvrocks.conf or a redis.conf to a kvrocks.toml with the values that differ from the default, and with
// comments about the lines that were not carried over. file is the file's name; dialect is "redis", "kvrocks", or
// empty: the content decides. The only error is a contradiction that leaving out a single line cannot resolve.
func File(file string, data []byte, dialect string) (*Result, error) {
	if conffile.Detect(file, data) == conffile.TOML {
		return nil, ErrTOML
	}
	v := &converter{Result: Result{Redis: dialect == "redis" || dialect == "" && conffile.LooksLikeRedis(file, data)}}
	v.read(data)
	d, err := v.load()
	if err != nil {
		return nil, err
	}
	v.leaveInert(d)
	slices.SortStableFunc(v.Left, func(a, b Left) int { return a.Line - b.Line })
	if v.TOML, err = v.write(filepath.Base(file), d); err != nil {
		return nil, err
	}
	return &v.Result, nil
}

const (
	renameCommand = "rename-command"
	requirePass   = "requirepass"
)

type converter struct {
	Result
	entries    []conffile.Entry
	appendOnly bool
}

// redisDefaults are defaults of Redis that differ from the defaults here.
var redisDefaults = []conffile.Entry{{Key: "bind", Text: "* -::*"}, {Key: "port", Text: "6379"},
	{Key: "databases", Text: "16"}, {Key: "dir", Text: "./"}}

// read parses the lines, translates them, and keeps those that are valid by themselves.
func (v *converter) read(data []byte) {
	var all []conffile.Entry
	if v.Redis {
		all = slices.Clone(redisDefaults)
	}
	for i, line := range conffile.Lines(data) {
		e, err := v.parse(line)
		e.Line = i + 1
		switch {
		case err != nil:
			v.leave(e, err.Error())
		case e.Key != "":
			all = append(all, e)
		}
	}
	last := map[string]string{}
	for _, e := range all { // appendfsync and logfile depend on other lines
		key := strings.ToLower(e.Key)
		last[key] = e.Text
		switch key {
		case "appendonly":
			v.appendOnly = strings.EqualFold(e.Text, "yes")
		case "cluster-enabled":
			if v.Redis && strings.EqualFold(e.Text, "yes") { // Redis then ignores databases
				isNumber := func(e conffile.Entry) bool { return strings.EqualFold(e.Key, "databases") }
				all = slices.DeleteFunc(slices.Clone(all), isNumber)
			}
		}
	}
	// Redis has no TCP with port 0; here the system would choose a port.
	if tls := last["tls-port"]; v.Redis && last["port"] == "0" && last["unixsocket"] != "" && (tls == "" || tls == "0") {
		all = append(all, conffile.Entry{Key: "bind"})
	}
	for _, e := range all {
		v.add(e)
	}
}

// parse parses a line; a line without a setting has no key.
func (v *converter) parse(line string) (e conffile.Entry, err error) {
	trimmed := strings.Trim(line, conffile.Blanks)
	if trimmed == "" || trimmed[0] == '#' {
		return conffile.Entry{}, nil
	}
	key, text, err := conffile.ParseLine(line)
	if err == nil && conffile.IsUserKey(key) {
		return conffile.Entry{Key: key, Text: text}, nil
	}
	if !v.Redis {
		if err != nil {
			key, _, _ = strings.Cut(trimmed, " ")
		}
		if _, lacks := conffile.LacksValue(line); lacks {
			err = conffile.ErrIgnored
		} else if err == nil && conffile.Ignored(key, text) {
			key = ""
		}
		return conffile.Entry{Key: key, Text: text}, err
	}
	args, ok := resp.SplitArgs([]byte(trimmed), nil)
	if !ok || len(args) == 0 {
		key, _, _ = strings.Cut(trimmed, " ")
		return conffile.Entry{Key: key}, errors.New("the quotes are not balanced")
	}
	e.Key = string(args[0])
	if len(args) == 1 {
		return e, conffile.ErrNoValue
	}
	words := make([]string, len(args)-1)
	for i, a := range args[1:] {
		words[i] = string(a)
		if len(a) == 0 && len(words) > 1 {
			words[i] = `""`
		}
	}
	e.Text = strings.Join(words, " ")
	if s, _, ok := setting.Find(e.Key); ok && s.Kind == setting.Bytes {
		if n, ok := setting.ParseRedisMemory(e.Text); ok {
			e.Text = strconv.FormatInt(n, 10)
		}
	}
	return e, nil
}

// leave records a setting that is not carried over.
func (v *converter) leave(e conffile.Entry, reason string) {
	text := conffile.Printable(e.Key)
	secret := conffile.IsUserKey(e.Key)
	for _, part := range []string{"pass", "auth", conffile.NamespacePrefix, "rename-command"} {
		secret = secret || strings.Contains(strings.ToLower(e.Key), part)
	}
	if e.Text != "" && !secret {
		text += " " + conffile.Printable(e.Text)
	}
	v.Left = append(v.Left, Left{e.Line, text, conffile.Printable(reason)})
}

// reasons explains keys that have no meaning here, or another one than in the table.
var reasons = map[string]string{
	"include":          "included files are not read: convert each by itself",
	"loadmodule":       "there are no modules; what Kvrocks builds in is built in",
	"maxmemory":        config.ErrEviction.Error(),
	"maxmemory-policy": config.ErrEviction.Error(),
	"dbfilename":       "backups are directories in backup-dir",
}

// add carries an entry over under its name here, or leaves it.
func (v *converter) add(e conffile.Entry) {
	given := e
	switch key := strings.ToLower(e.Key); key {
	case "databases":
		if e.Text == "1" {
			e.Text = "0"
		}
		e.Key = "redis-databases"
	case "loglevel":
		level, ok := setting.LogLevels[strings.ToLower(e.Text)]
		if !ok {
			v.leave(given, "not a level")
			return
		}
		e.Key, e.Text = "log-level", level
	case "logfile":
		if e.Text == "" {
			return // the standard output, as here
		}
		e.Key, e.Text = "log-dir", filepath.Dir(e.Text)
		if e.Text == "." {
			e.Text = "" // the base directory, which is the working directory of Redis
		}
	case "appendfsync":
		switch {
		case !v.appendOnly:
			return
		case strings.EqualFold(e.Text, "always"):
			e.Key, e.Text = "rocksdb.write_options.sync", "yes"
		case strings.EqualFold(e.Text, "everysec"):
			v.leave(given, "the log is synced before every reply (rocksdb.write_options.sync) or when the system does it")
			return
		}
	case "appendonly":
		return // the log always exists
	case "save":
		if e.Text != "" {
			v.leave(given, setting.Table[setting.Index("save")].Inert+"; bgsave-cron makes backups")
		}
		return
	case "include", "loadmodule":
		v.leave(given, reasons[key])
		return
	}
	if !utf8.ValidString(e.Key) || !utf8.ValidString(e.Text) {
		v.leave(given, conffile.ErrUTF8.Error())
		return
	}
	old := renamed(e)
	if old != "" && slices.ContainsFunc(v.entries, func(o conffile.Entry) bool { return renamed(o) == old }) {
		v.leave(given, "the command is renamed already")
		return
	}
	d := config.NewDraft()
	if err := d.Add("", e, false); err != nil {
		reason := errors.Unwrap(err)
		if errors.Is(err, conffile.ErrUnknown) && setting.Foreign(e.Key) {
			reason = errors.New("a setting of another version of Kvrocks")
		}
		v.leave(given, reason.Error())
		return
	}
	v.entries = append(v.entries, e)
}

// renamed returns the command that an entry renames, empty if none.
func renamed(e conffile.Entry) string {
	if words := strings.Fields(e.Text); len(words) > 0 && strings.EqualFold(e.Key, renameCommand) {
		return words[0]
	}
	return ""
}

// load applies the rules between settings, and leaves the settings that they reject.
func (v *converter) load() (*config.Draft, error) {
	for {
		d := config.NewDraft()
		at, err := -1, error(nil)
		for i, e := range v.entries {
			if err = d.Add("", e, false); err != nil {
				at = i
				break
			}
		}
		if err == nil {
			if err = d.Finish(); err == nil {
				return d, nil
			}
			var e *conffile.Error
			if !errors.As(err, &e) {
				return nil, err
			}
			refused := func(have conffile.Entry) bool {
				if e.Key == requirePass { // the password stays; the tokens, which need another one, are left
					pass := d.Content().Values[setting.Index(requirePass)].Text
					return strings.HasPrefix(strings.ToLower(have.Key), conffile.NamespacePrefix) &&
						(pass == "" || have.Text == pass || have.Text == d.Content().Values[setting.Index("masterauth")].Text)
				}
				s, _, ok := setting.Find(have.Key)
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

// leaveInert leaves settings without effect if their value is not the default: only those were meant to do something.
func (v *converter) leaveInert(d *config.Draft) {
	for i, s := range setting.Table {
		e, given := d.Given(i)
		if !given || s.Inert == "" || d.Content().Values[i].Text == s.Default {
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
func (v *converter) write(name string, d *config.Draft) ([]byte, error) {
	var b strings.Builder
	kind := "kvrocks.conf"
	if v.Redis {
		kind = "redis.conf"
	}
	fmt.Fprintf(&b, "# From %s, read as a %s: the settings that are not the default.\n", conffile.Printable(name), kind)
	for _, g := range setting.Groups {
		if err := writeGroup(&b, g, d); err != nil {
			return nil, err
		}
	}
	if err := writeTables(&b, d); err != nil {
		return nil, err
	}
	if len(v.Left) > 0 {
		b.WriteString("\n# Not carried over:\n")
		for _, left := range v.Left {
			b.WriteString("# " + strings.ToValidUTF8(left.String(), "?") + "\n")
		}
	}
	data := []byte(b.String())
	// Check: the file must yield what was read.
	back := config.NewDraft()
	entries, err := conffile.TOML.Entries(data)
	for _, e := range entries {
		if err == nil {
			err = back.Add("", e, false)
		}
	}
	if err == nil {
		err = back.Finish()
	}
	if err != nil {
		return nil, err
	}
	want, have := d.Content().Values, back.Content().Values
	for i, s := range setting.Table {
		if s.Inert == "" && s.Kind != setting.Multi && have[i] != want[i] {
			return nil, fmt.Errorf("%s cannot be written", s.Name)
		}
	}
	return data, nil
}

// writeGroup writes the settings of a group that were given and are not the default.
func writeGroup(b *strings.Builder, g setting.Group, d *config.Draft) error {
	head := false
	values := d.Content().Values
	for _, s := range g.Settings {
		i := setting.Index(s.Name)
		// Without bind, a Unix socket means that no address is bound.
		forced := s.Name == "bind" && values[setting.Index("unixsocket")].Text != ""
		if _, given := d.Given(i); !given || s.Inert != "" || s.Kind == setting.Multi ||
			values[i].Text == s.Default && !forced {
			continue
		}
		if !head {
			head = true
			if strings.HasPrefix(g.Title, "[") {
				fmt.Fprintf(b, "\n%s\n", g.Title)
			} else {
				fmt.Fprintf(b, "\n### %s\n\n", g.Title)
			}
		}
		text, err := conffile.TOMLValue(&s, values[i], false)
		if err != nil {
			return fmt.Errorf("%s %w", s.Name, err)
		}
		fmt.Fprintf(b, "# %s\n%s = %s\n", s.Comment, s.Name[strings.LastIndexByte(s.Name, '.')+1:], text)
	}
	return nil
}

// writeTables writes namespaces, renamed commands and users.
func writeTables(b *strings.Builder, d *config.Draft) error {
	write := func(head string, pairs [][2]string) error {
		for i, p := range pairs {
			if i == 0 {
				fmt.Fprintf(b, "\n[%s]\n", head)
			}
			key, err := conffile.TOMLKey(p[0])
			if err != nil {
				return fmt.Errorf("%s: %w", head, err)
			}
			text, err := conffile.QuoteTOML(p[1])
			if err != nil {
				return fmt.Errorf("%s: %w", head, err)
			}
			fmt.Fprintf(b, "%s = %s\n", key, text)
		}
		return nil
	}
	var namespaces, renames, users [][2]string
	content := d.Content()
	for _, name := range slices.Sorted(maps.Keys(content.Tokens)) {
		namespaces = append(namespaces, [2]string{name, content.Tokens[name]})
	}
	for _, line := range setting.Lines(content.Values[setting.Index(renameCommand)].Text) {
		words := strings.Fields(line)
		renames = append(renames, [2]string{words[0], strings.Trim(words[1], `"'`)})
	}
	for _, u := range content.Users {
		users = append(users, [2]string{u.Name, conffile.JoinArgs(u.Rules)})
	}
	if err := write("namespace", namespaces); err != nil {
		return err
	}
	if err := write(renameCommand, renames); err != nil {
		return err
	}
	return write(conffile.UserKey, users)
}
