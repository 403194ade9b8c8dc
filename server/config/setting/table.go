package setting

import (
	"errors"
	"math"
	"net"
	"sort"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/compaction"
)

// Group is a part of the table that stands under one heading of kvrocks.toml.
type Group struct {
	Title    string
	Settings []Setting
}

// Groups are the settings that kvrocks.toml lists, in its order: first the top-level keys, then the tables.
var Groups = append(append([]Group{}, serverGroups...), rocksdbGroups...)

// Table is all settings: those of Groups, then those that only Redis has. It must not be changed.
var Table []*Setting

var (
	lookup = map[string]int{} // index in table by name and alias
	names  []string           // all names and aliases, sorted
)

func init() {
	for g := range Groups {
		for s := range Groups[g].Settings {
			enter(&Groups[g].Settings[s])
		}
	}
	for i := range redisSettings {
		redisSettings[i].Redis = true
		if redisSettings[i].Name != "loglevel" {
			redisSettings[i].Inert = "a setting of Redis"
		}
		enter(&redisSettings[i])
	}
	sort.Strings(names)
}

// enter adds a setting to the table.
func enter(s *Setting) {
	for _, name := range []string{s.Name, s.Alias} {
		if name != "" {
			lookup[name] = len(Table)
			names = append(names, name)
		}
	}
	Table = append(Table, s)
}

// Find returns the setting with a name, in any case, and its index.
func Find(name string) (*Setting, int, bool) {
	i, ok := lookup[strings.ToLower(name)]
	if !ok {
		return nil, 0, false
	}
	return Table[i], i, true
}

// Index returns the index of a name in the table. A name that is not there is a mistake in the program and panics.
func Index(name string) int {
	_, i, ok := Find(name)
	if !ok {
		panic("setting: no setting " + name)
	}
	return i
}

// Names returns the names of all settings, with their aliases, sorted. The list must not be changed.
func Names() []string { return names }

// Inert returns the names of the settings that have no effect.
func Inert() []string {
	var list []string
	for _, s := range Table {
		if s.Inert != "" {
			list = append(list, s.Name)
		}
	}
	return list
}

// mode says when a setting may change.
type mode bool

const (
	fixed   mode = false // only at start
	dynamic mode = true  // by CONFIG SET too
)

// maxInt is the upper end of Kvrocks's int settings.
const maxInt = math.MaxInt32

// The constructors below make settings of one kind. Settings that only Redis has have no comment.

func boolean(name, def string, m mode, comment ...string) Setting {
	return Setting{Name: name, Kind: Bool, Default: def, Dynamic: bool(m), Comment: strings.Join(comment, " ")}
}

func integer(name string, def, lo, hi int64, m mode, comment ...string) Setting {
	return Setting{Name: name, Kind: Int, Default: strconv.FormatInt(def, 10), Min: lo, Max: hi, Dynamic: bool(m),
		Comment: strings.Join(comment, " ")}
}

// size is a number of bytes, which may have a unit.
func size(name string, def, lo, hi int64, m mode, comment ...string) Setting {
	s := integer(name, def, lo, hi, m, comment...)
	s.Kind = Bytes
	return s
}

// age is a number of seconds with Kvrocks's range of 64 bits; 2^64-2 means that RocksDB chooses.
func age(name, comment string) Setting {
	return integer(name, RocksDecides, RocksDecides, math.MaxInt64, dynamic,
		comment+"; 0 = never, -2 = RocksDB's 30 days.")
}

// RocksDecides is, as 64 bits without a sign, RocksDB's way to say that it chooses a value.
const RocksDecides = -2

func enum(name, def string, names []string, m mode, comment ...string) Setting {
	return Setting{Name: name, Kind: Enum, Default: def, Names: names, Dynamic: bool(m),
		Comment: strings.Join(comment, " ")}
}

func text(name, def string, m mode, comment ...string) Setting {
	return Setting{Name: name, Kind: String, Default: def, Dynamic: bool(m), Comment: strings.Join(comment, " ")}
}

func (s Setting) alias(name string) Setting { s.Alias = name; return s }

// protected is for a path to which the server writes.
func (s Setting) protected() Setting { s.Protected = true; return s }

// volatile is for the name of a file whose content counts.
func (s Setting) volatile() Setting { s.Volatile = true; return s }

// inert is for a setting that is accepted and has no effect, for a reason.
func (s Setting) inert(reason string) Setting { s.Inert = reason; return s }

func (s Setting) canonical(f func(string) string) Setting { s.Canonical = f; return s }

func (s Setting) check(f func(string) error) Setting { s.Check = f; return s }

// checkEvents checks the letters of notify-keyspace-events.
func checkEvents(text string) error {
	if strings.Trim(text, "KEg$lshzxetdmnA") != "" {
		//lint:ignore ST1005 the text is Redis's
		return errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
	}
	return nil
}

// canonicalEvents writes the letters of notify-keyspace-events as Redis shows them: A for all classes that it stands
// for, or the classes; then n, which A does not stand for, how they are published, and m.
func canonicalEvents(text string) string {
	const all, others = "g$lshzxetd", "nKEm"
	pick := func(letters string) (out []byte) {
		for i := range len(letters) {
			if strings.IndexByte(text, letters[i]) >= 0 {
				out = append(out, letters[i])
			}
		}
		return out
	}
	classes := string(pick(all))
	if classes == all || strings.Contains(text, "A") {
		classes = "A"
	}
	return classes + string(pick(others))
}

// checkAddress checks the form of an address to listen on.
func checkAddress(text string) error {
	if _, _, err := net.SplitHostPort(text); text != "" && err != nil {
		return errors.New("must be HOST:PORT, such as 127.0.0.1:9121")
	}
	return nil
}

func checkCron(text string) error {
	_, err := compaction.ParseCron(text)
	return err
}

// checkPercentiles checks latency-tracking-info-percentiles: numbers from 0 to 100.
func checkPercentiles(text string) error {
	for w := range strings.FieldsSeq(text) {
		if p, err := strconv.ParseFloat(w, 64); err != nil || !(p >= 0 && p <= 100) {
			return ReplyError("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
	}
	return nil
}

// checkRange checks compaction-checker-range, which is the hour field of a cron expression.
func checkRange(text string) error {
	if text == "" {
		return nil
	}
	if len(strings.Fields(text)) != 1 {
		return compaction.ErrCronFields
	}
	return checkCron(RangeCron(text))
}

// RangeCron is the schedule that a compaction-checker-range means.
func RangeCron(hours string) string { return "* " + hours + " * * *" }

var (
	errRename = ReplyError("Invalid rename-command format")
)

func checkSlaveOf(text string) error {
	words := strings.Fields(text)
	switch {
	case len(words) == 0, len(words) == 2 && strings.EqualFold(words[0], "no") && strings.EqualFold(words[1], "one"):
		return nil
	case len(words) != 2:
		return errors.New("must be 'host port' or 'no one'")
	}
	if port, err := strconv.Atoi(words[1]); err != nil || port < 1 || port > 65535 {
		return errors.New("the master's port must be between 1 and 65535")
	}
	return nil
}

// checkRename checks the form only: the server knows which commands exist.
func checkRename(text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		if len(strings.Fields(line)) != 2 {
			return errRename
		}
	}
	return nil
}

// Foreign reports whether a key, in any case, is one of foreign.
func Foreign(key string) bool { return foreign[strings.ToLower(key)] }

// foreign are keys of other versions of Kvrocks that have no effect here. In a kvrocks.conf and on the command line
// they are accepted with a warning, so that a file of that version can be used unchanged.
var foreign = map[string]bool{
	// Newer than 2.10.
	"histogram-bucket-boundaries":    true,
	"replication-connect-timeout-ms": true, "replication-delay-bytes": true, "replication-delay-updates": true,
	"replication-group-sync": true, "replication-no-slowdown": true, "replication-recv-timeout-ms": true,
	"skip-block-cache-deallocation-on-close": true, "slowlog-dump-logfile-level": true,
	// Removed before 2.10.
	"geo-cache-size": true, "reply-cache-size": true, // basalt's own; see derived-state-size
	"codis-enabled": true, "repl-bind": true, "repl-workers": true, "rocksdb.max_sub_compactions": true,
}
