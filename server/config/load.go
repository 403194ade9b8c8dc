package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrVersion and ErrHelp are returned by [Load] when the command line asks for the version or for help instead of a
// server.
var (
	ErrVersion = errors.New("version asked for")
	ErrHelp    = errors.New("help asked for")
)

// Usage explains the command line.
const Usage = `usage: basalt [-c FILE] [--KEY VALUE]...
  -c, --config FILE  read settings from a kvrocks.toml or a kvrocks.conf; - reads standard input
  --KEY VALUE        set any key of the file, for example --port 7000; wins over the file
  -v, --version      print the version
  -h, --help         print this
`

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
		b.WriteString(": " + printable(e.Key))
	}
	return b.String() + ": " + printable(e.Err.Error())
}

func (e *Error) Unwrap() error { return e.Err }

// printable makes any string fit for one line of the log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

var (
	errUnknown    = errors.New("unknown key")
	errNoFile     = errors.New("wants the name of a file")
	errNoValue    = errors.New("wants a value")
	errIgnored    = errors.New("has no value: the line is ignored")
	errNoOption   = errors.New("neither an option nor a sub-command; basalt --help lists both")
	errTokenTwice = errors.New("the token is given to two namespaces")
	errNameTwice  = errors.New("the namespace has two tokens")
	errPassEmpty  = errors.New("requirepass empty wasn't allowed while the namespace exists")
	errClusterNS  = errors.New("enabled cluster mode wasn't allowed while the namespace exists")
	errDBsNS      = errors.New("redis-databases wasn't allowed while the namespace exists")
	errDBsCluster = errors.New("redis-databases wasn't allowed while cluster mode is enabled")
	errClusterTCP = errors.New("cluster mode needs a TCP address to listen on: bind is empty")
	errReplicaTCP = errors.New("a replica needs a TCP address to listen on: bind is empty")
)

const commandLine = "command line"

// entry is one setting of a file or of the command line.
type entry struct {
	key, text string
	line      int
}

// namespacePrefix starts the keys of namespaces: namespace.NAME TOKEN.
const namespacePrefix = "namespace."

// loader collects settings before they become a Config.
type loader struct {
	c     *Config
	st    *state
	given map[int]entry // the last position of each setting, by index
	files map[int]string
	inert []string // settings given with a value that has no effect here
}

// Load reads the settings that args, a command line without the program's name, asks for. stdin is read for the
// file "-". Apart from [ErrVersion] and [ErrHelp] errors are of type [*Error]. Nothing is created or changed.
func Load(args []string, stdin io.Reader) (*Config, error) {
	file, options, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	c := Default()
	l := &loader{c: c, st: c.state.Load().clone(), given: map[int]entry{}, files: map[int]string{}}
	switch file {
	case "":
		c.warnings = append(c.warnings, "no configuration file: defaults are used; basalt -c FILE names one, "+
			"basalt --help lists options and sub-commands, basalt doctor looks at this machine")
	default:
		if err := l.read(file, stdin); err != nil {
			return nil, err
		}
	}
	for _, o := range options {
		if err := l.add(commandLine, o, true); err != nil {
			return nil, err
		}
	}
	if err := l.finish(); err != nil {
		return nil, err
	}
	c.state.Store(l.st)
	return c, nil
}

// parseArgs splits a command line; the keys of options are without the dashes.
func parseArgs(args []string) (file string, options []entry, err error) {
	bad := func(key string, err error) (string, []entry, error) {
		return "", nil, &Error{File: commandLine, Key: key, Err: err}
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "-v" || arg == "--version":
			return "", nil, ErrVersion
		case arg == "-h" || arg == "--help":
			return "", nil, ErrHelp
		case arg == "-c" || arg == "--config":
			if i++; i == len(args) || args[i] == "" {
				return bad(arg, errNoFile)
			}
			file = args[i]
		case len(arg) > 2 && strings.HasPrefix(arg, "--"):
			if i++; i == len(args) {
				if _, _, ok := find(arg[2:]); !ok {
					return bad(arg, errNoOption)
				}
				return bad(arg, errNoValue)
			}
			options = append(options, entry{key: arg[2:], text: args[i]})
		default:
			return bad(arg, errNoOption)
		}
	}
	return file, options, nil
}

// read reads a file, "-" for stdin.
func (l *loader) read(file string, stdin io.Reader) error {
	var data []byte
	var err error
	if file == "-" {
		file = "standard input"
		if stdin == nil {
			stdin = strings.NewReader("")
		}
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
		if err == nil {
			l.c.file, err = filepath.Abs(file)
		}
	}
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return &Error{File: file, Err: err}
	}
	l.c.format = detectFormat(file, data)
	entries, err := l.c.format.entries(data)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.File = file
		}
		return err
	}
	if l.c.format == kvrocksConf {
		l.warnIgnored(file, data)
	}
	for _, e := range entries {
		err := l.add(file, e, l.c.format == kvrocksConf)
		if bad := (*Error)(nil); errors.As(err, &bad) && l.c.format == kvrocksConf && looksLikeRedis(file, data) {
			bad.Err = fmt.Errorf("%w (a redis.conf? basalt convert-config %s translates it)", bad.Err, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warnIgnored warns about the lines of a kvrocks.conf that are ignored although they ask for something.
func (l *loader) warnIgnored(file string, data []byte) {
	for i, line := range confLines(data) {
		if key, lacks := lacksValue(line); lacks {
			l.c.warnings = append(l.c.warnings, (&Error{File: file, Line: i + 1, Key: key, Err: errIgnored}).Error())
		}
	}
}

// format is the grammar of a file.
type format int

const (
	tomlFile format = iota
	kvrocksConf
)

func (f format) entries(data []byte) ([]entry, error) {
	if f == tomlFile {
		return tomlEntries(data)
	}
	return confEntries(data)
}

// tomlLine matches a line that TOML has and a kvrocks.conf has not: a table, or a key and an equals sign.
var tomlLine = regexp.MustCompile(`^(\[|("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*(\.\s*("[^"]*"|[A-Za-z0-9_-]+)\s*)*=)`)

// detectFormat decides by the file's extension, else by the first line that is neither blank nor a comment.
func detectFormat(file string, data []byte) format {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".toml":
		return tomlFile
	case ".conf":
		return kvrocksConf
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if tomlLine.MatchString(line) {
			return tomlFile
		}
		break
	}
	return kvrocksConf
}

// add adds one setting. If lenient, keys of other versions of Kvrocks are accepted, and listed as inert.
func (l *loader) add(file string, e entry, lenient bool) error {
	at := Error{File: file, Line: e.line, Key: e.key}
	if file == commandLine {
		at.Key = "--" + at.Key
	}
	fail := func(err error) error {
		at.Err = err
		return &at
	}
	if len(e.key) > len(namespacePrefix) && strings.EqualFold(e.key[:len(namespacePrefix)], namespacePrefix) {
		if err := l.addNamespace(e.key[len(namespacePrefix):], e.text); err != nil {
			return fail(err)
		}
		return nil
	}
	if isUserKey(e.key) {
		return l.addUser(e.text, at)
	}
	s, i, ok := find(e.key)
	if !ok {
		if lenient && foreign[strings.ToLower(e.key)] {
			l.inert = append(l.inert, strings.ToLower(e.key))
			return nil
		}
		return fail(errUnknown)
	}
	v, err := s.parse(l.st.values[i].text, e.text)
	if err != nil {
		return fail(err)
	}
	if i == renameCommand {
		for range lines(e.text) {
			l.c.renames = append(l.c.renames, at)
		}
	}
	l.st.set(i, v)
	l.given[i], l.files[i] = e, file
	return nil
}

func (l *loader) addNamespace(name, token string) error {
	for other, t := range l.st.tokens {
		if other == name && t != token {
			return errNameTwice
		}
		if other != name && t == token {
			return errTokenTwice
		}
	}
	if token == "" {
		return ErrTokenEmpty
	}
	l.st.tokens[name] = token
	return nil
}

// derive drops the default address and the default cron where another setting replaces them.
func (l *loader) derive() {
	if _, given := l.given[bind]; !given && l.st.values[unixSocket].text != "" {
		l.st.values[bind] = value{}
	}
	if _, given := l.given[checkerCron]; !given && l.st.values[checkerRange].text != "" {
		l.st.values[checkerCron] = value{}
	}
}

// finish applies the rules between settings.
func (l *loader) finish() error {
	l.derive()
	st := l.st
	cluster, noTCP := st.values[clusterEnabled].num != 0, st.text(bind) == ""
	switch {
	case len(st.tokens) > 0 && st.values[requirePass].text == "":
		return l.fail(requirePass, errPassEmpty)
	case cluster && len(st.tokens) > 0:
		return l.fail(clusterEnabled, errClusterNS)
	case st.values[redisDatabases].num != 0 && len(st.tokens) > 0:
		return l.fail(redisDatabases, errDBsNS)
	case st.values[redisDatabases].num != 0 && cluster:
		return l.fail(redisDatabases, errDBsCluster)
	case cluster && noTCP:
		return l.fail(clusterEnabled, errClusterTCP)
	case st.values[slaveOf].text != "" && noTCP:
		return l.fail(slaveOf, errReplicaTCP)
	case len(l.c.users) > 0 && st.values[aclFile].text != "":
		return l.fail(aclFile, errUsersAndFile)
	}
	if err := st.checkCheckerRange(); err != nil {
		return l.fail(checkerRange, err)
	}
	if err := st.checkPasswords(); err != nil {
		return l.fail(requirePass, err)
	}
	for i := range table {
		if _, given := l.given[i]; !given {
			continue
		}
		if err := st.checkRedis(i); err != nil {
			return l.fail(i, err)
		}
		if s := table[i]; s.Inert != "" && st.values[i].text != s.Default {
			l.inert = append(l.inert, s.Name)
		}
	}
	if len(l.inert) > 0 {
		l.c.warnings = append(l.c.warnings, "settings without effect here: "+strings.Join(l.inert, ", "))
	}
	return nil
}

// fail gives an error the position of its setting.
func (l *loader) fail(i int, err error) error {
	e, given := l.given[i]
	if !given {
		return &Error{File: "configuration", Key: table[i].Name, Err: err}
	}
	return &Error{File: l.files[i], Line: e.line, Key: table[i].Name, Err: err}
}
