package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
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

var (
	errNoFile     = errors.New("wants the name of a file")
	errNoOption   = errors.New("neither an option nor a sub-command; basalt --help lists both, -c takes a file")
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

// Draft collects settings before they become a [Config].
type Draft struct {
	c     *Config
	st    *state
	given map[int]conffile.Entry // the last position of each setting, by index
	files map[int]string
	inert []string // settings given with a value that has no effect here
}

// NewDraft returns the settings of a server without file and command line.
func NewDraft() *Draft {
	c := Default()
	return &Draft{c: c, st: c.state.Load().clone(), given: map[int]conffile.Entry{}, files: map[int]string{}}
}

// Load returns the settings of args, a command line without the program's name. stdin is read for the file "-". Errors
// other than [ErrVersion] and [ErrHelp] are of type [*conffile.Error]. Nothing is created or changed.
func Load(args []string, stdin io.Reader) (*Config, error) {
	file, options, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	d := NewDraft()
	c := d.c
	switch file {
	case "":
		c.warnings = append(c.warnings, "no configuration file: defaults are used; basalt -c FILE names one, "+
			"basalt --help lists options and sub-commands, basalt doctor looks at this machine")
	default:
		if err := d.read(file, stdin); err != nil {
			return nil, err
		}
	}
	for _, o := range options {
		if err := d.Add(commandLine, o, true); err != nil {
			return nil, err
		}
	}
	if d.files[dir] == commandLine { // CONFIG REWRITE writes it for a start that may happen elsewhere
		if path, err := filepath.Abs(d.st.values[dir].Text); err == nil {
			d.st.set(dir, setting.Value{Text: path})
		}
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}
	c.state.Store(d.st)
	return c, nil
}

// parseArgs splits a command line; the keys of options are without the dashes.
func parseArgs(args []string) (file string, options []conffile.Entry, err error) {
	bad := func(key string, err error) (string, []conffile.Entry, error) {
		return "", nil, &conffile.Error{File: commandLine, Key: key, Err: err}
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
				if _, _, ok := setting.Find(arg[2:]); !ok {
					return bad(arg, errNoOption)
				}
				return bad(arg, conffile.ErrNoValue)
			}
			options = append(options, conffile.Entry{Key: arg[2:], Text: args[i]})
		default:
			return bad(arg, errNoOption)
		}
	}
	return file, options, nil
}

// read reads a file, "-" for stdin.
func (d *Draft) read(file string, stdin io.Reader) error {
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
			d.c.file, err = filepath.Abs(file)
		}
	}
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return &conffile.Error{File: file, Err: err}
	}
	d.c.format = conffile.Detect(file, data)
	entries, err := d.c.format.Entries(data)
	if err != nil {
		if e, ok := errors.AsType[*conffile.Error](err); ok {
			e.File = file
		}
		return err
	}
	if d.c.format == conffile.Conf {
		d.warnIgnored(file, data)
	}
	for _, e := range entries {
		conf := d.c.format == conffile.Conf
		err := d.Add(file, e, conf)
		if bad := (*conffile.Error)(nil); conf && errors.As(err, &bad) && conffile.LooksLikeRedis(file, data) {
			bad.Err = fmt.Errorf("%w (a redis.conf? basalt convert-config %s translates it)", bad.Err, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warnIgnored warns about lines of a kvrocks.conf for which [conffile.LacksValue] is true.
func (d *Draft) warnIgnored(file string, data []byte) {
	for i, line := range conffile.Lines(data) {
		if key, lacks := conffile.LacksValue(line); lacks {
			at := conffile.Error{File: file, Line: i + 1, Key: key, Err: conffile.ErrIgnored}
			d.c.warnings = append(d.c.warnings, at.Error())
		}
	}
}

// Add adds one setting. If lenient, keys of other versions of Kvrocks are accepted, and listed as inert.
func (d *Draft) Add(file string, e conffile.Entry, lenient bool) error {
	at := conffile.Error{File: file, Line: e.Line, Key: e.Key}
	if file == commandLine {
		at.Key = "--" + at.Key
	}
	fail := func(err error) error {
		at.Err = err
		return &at
	}
	if name, ok := conffile.CutNamespace(e.Key); ok {
		if err := d.addNamespace(name, e.Text); err != nil {
			return fail(err)
		}
		return nil
	}
	if conffile.IsUserKey(e.Key) {
		return d.addUser(e.Text, at)
	}
	s, i, ok := setting.Find(e.Key)
	if !ok {
		if lenient && setting.Foreign(e.Key) {
			d.inert = append(d.inert, strings.ToLower(e.Key))
			return nil
		}
		return fail(conffile.ErrUnknown)
	}
	v, err := s.Parse(d.st.values[i].Text, e.Text)
	if err != nil {
		return fail(err)
	}
	if i == renameCommand {
		for range setting.Lines(e.Text) {
			d.c.renames = append(d.c.renames, at)
		}
	}
	d.st.set(i, v)
	d.given[i], d.files[i] = e, file
	return nil
}

func (d *Draft) addNamespace(name, token string) error {
	for other, t := range d.st.tokens {
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
	d.st.tokens[name] = token
	return nil
}

// derive drops the default address and the default cron where another setting replaces them.
func (d *Draft) derive() {
	if _, given := d.given[bind]; !given && d.st.values[unixSocket].Text != "" {
		d.st.values[bind] = setting.Value{}
	}
	if _, given := d.given[checkerCron]; !given && d.st.values[checkerRange].Text != "" {
		d.st.values[checkerCron] = setting.Value{}
	}
}

// Finish applies the rules between settings.
func (d *Draft) Finish() error {
	d.derive()
	st := d.st
	cluster, noTCP := st.values[clusterEnabled].Num != 0, st.text(bind) == ""
	switch {
	case len(st.tokens) > 0 && st.values[requirePass].Text == "":
		return d.fail(requirePass, errPassEmpty)
	case cluster && len(st.tokens) > 0:
		return d.fail(clusterEnabled, errClusterNS)
	case st.values[redisDatabases].Num != 0 && len(st.tokens) > 0:
		return d.fail(redisDatabases, errDBsNS)
	case st.values[redisDatabases].Num != 0 && cluster:
		return d.fail(redisDatabases, errDBsCluster)
	case cluster && noTCP:
		return d.fail(clusterEnabled, errClusterTCP)
	case st.values[slaveOf].Text != "" && noTCP:
		return d.fail(slaveOf, errReplicaTCP)
	case len(d.c.users) > 0 && st.values[aclFile].Text != "":
		return d.fail(aclFile, errUsersAndFile)
	}
	if err := st.checkCheckerRange(); err != nil {
		return d.fail(checkerRange, err)
	}
	if err := st.checkPasswords(); err != nil {
		return d.fail(requirePass, err)
	}
	for i := range setting.Table {
		if _, given := d.given[i]; !given {
			continue
		}
		if err := st.checkRedis(i); err != nil {
			return d.fail(i, err)
		}
		if i == redisLogLevel && st.values[i].Text != setting.Table[i].Default {
			return d.fail(i, errLogLevel)
		}
		if s := setting.Table[i]; s.Inert != "" && st.values[i].Text != s.Default {
			d.inert = append(d.inert, s.Name)
		}
	}
	if len(d.inert) > 0 {
		d.c.warnings = append(d.c.warnings, "settings without effect here: "+strings.Join(d.inert, ", "))
	}
	return nil
}

// fail adds the position of its setting to an error.
func (d *Draft) fail(i int, err error) error {
	e, given := d.given[i]
	if !given {
		return &conffile.Error{File: "configuration", Key: setting.Table[i].Name, Err: err}
	}
	return &conffile.Error{File: d.files[i], Line: e.Line, Key: setting.Table[i].Name, Err: err}
}

// Given returns the last occurrence of a setting, by its index.
func (d *Draft) Given(i int) (conffile.Entry, bool) {
	e, ok := d.given[i]
	return e, ok
}

// Content returns the values after all occurrences of settings and the rules between settings were applied.
func (d *Draft) Content() *conffile.Content {
	return &conffile.Content{Values: d.st.values, Tokens: d.st.tokens, Users: d.c.users}
}
