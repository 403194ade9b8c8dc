package lua

import (
	"strings"
	"testing"
)

// What redis-server 7.2.6 says to libraries; "" = they are kept.
func TestLoadingLibraries(t *testing.T) {
	e := newEngine(t, 0)
	const (
		ok       = " redis.register_function('f', function() return 1 end)"
		failed   = "ERR Error registering functions: "
		missing  = failed + "ERR user_function:2: Script attempted to access nonexistent global variable "
		readOnly = failed + "ERR user_function:2: Attempt to modify a readonly table"
	)
	for _, tt := range []struct{ line, body, want string }{
		{"#!lua name=l", "", ""},
		{"#!lua name=l", "local a = ('x'):rep(3) .. redis.REDIS_VERSION redis.log(redis.LOG_NOTICE, a)", ""},
		{"#!lua name=l", "local a = string", missing + "'string'"},
		{"#!lua name=l", "pairs({})", missing + "'pairs'"},
		{"#!lua name=l", "local a = _G", missing + "'_G'"},
		{"#!lua name=l", "local a = KEYS", missing + "'KEYS'"},
		{"#!lua name=l", "redis.call('PING')", missing + "'call'"},
		{"#!lua name=l", "local a = redis.REPL_ALL", missing + "'REPL_ALL'"},
		{"#!lua name=l", "x = 1", readOnly},
		{"#!lua name=l", "string = 1", readOnly},
		{"#!lua name=l", "redis.log = 1", readOnly},
		{"#!lua name=l", "function g() end", readOnly},
		{"#!lua name=l",
			"redis.register_function{FUNCTION_NAME='g', Callback=function() end, flags={'NO-writes', 'allow-STALE'}}", ""},
		{"#!lua name=l", "redis.register_function{function_name='g', callback=function() end, flags={'x'}}", failed +
			"ERR unknown flag given"},
		{"#!lua name=l", "redis.register_function('f', function() end)", failed +
			"ERR Function already exists in the library"},
		{"#!LUA NAME=l", "", ""},
		{"#!lua name=\"l\"", "", ""},
		{"#!lua \"name=l\"", "", ""},
		{"#!lua name=l\"m\"", "", ""},
		{"#!lua name='l", "", "ERR Invalid library metadata"},
		{"#!lua name=\"a b\"", "", "ERR " + textName},
		{"#!lua name=l x", "", "ERR Invalid metadata value given: x"},
		{"#!lua", "", "ERR Library name was not given"},
		{"#!js name=l", "", "ERR Engine 'js' not found"},
	} {
		source := tt.line + "\n" + tt.body + ok
		got := ""
		l, err := e.Library([]byte(source))
		if err != nil {
			got = err.Error()
		} else if l.Source != source {
			t.Errorf("%q is kept as %q", source, l.Source)
		}
		if got != tt.want {
			t.Errorf("%s\n%s: %q, want %q", tt.line, tt.body, got, tt.want)
		}
	}
	if _, err := e.Library([]byte("#!lua name=l")); err == nil || err.Error() != "ERR Invalid library metadata" {
		t.Error(err)
	}
}

// What Kvrocks has accepted is loaded from the database, and lives once.
func TestStoredLibrariesSeeGlobals(t *testing.T) {
	e := newEngine(t, 0)
	const source = "#!lua name=l\nlocal encode, id = cjson.encode, tostring({}) redis.register_function('f', function() " +
		"return encode({1}) .. id end)"
	if _, err := e.Library([]byte(source)); err == nil {
		t.Error("it is accepted by FUNCTION LOAD")
	}
	l, err := e.StoredLibrary([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want, err := fcall(e, &echo{}, l, "f", false)
	if err != nil || !strings.Contains(want, "[1]table: ") {
		t.Errorf("%q %v", want, err)
	}
	if got, _ := fcall(e, &echo{}, l, "f", true); got != want {
		t.Errorf("%q, then %q", want, got)
	}
	if _, err := e.StoredLibrary([]byte("#!lua name=l\nredis.call('PING')")); err == nil {
		t.Error("a command was called")
	}
}

// Functions have the globals of scripts, but not all of redis.
func TestGlobalsOfFunctions(t *testing.T) {
	e := newEngine(t, 0)
	l := loadLibrary(t, e,
		`redis.register_function('f', function(k, a) return tostring(loadstring('return ' .. a[1])()) end)`)
	for _, tt := range []struct{ expr, want string }{
		{"redis.breakpoint", "nil"}, {"redis.debug", "nil"}, {"redis.replicate_commands",
			"nil"}, {"redis.register_function", "nil"},
		{"type(redis.call)", "function"}, {"_G.redis == redis", "true"}, {"_G.redis.debug", "nil"}, {"_G._G == _G", "true"},
		{"pcall(loadstring('return KEYS'))", "false"},
		{"pcall(setmetatable, _G, {})", "false"}, {"pcall(rawset, _G, 'x', 1)", "false"}, {"type(getmetatable(_G))", "table"},
	} {
		got, err := fcall(e, &echo{}, l, "f", false, tt.expr)
		if _, text, _ := strings.Cut(got, "\r\n"); err != nil || text != tt.want+"\r\n" {
			t.Errorf("%s: %q %v, want %s", tt.expr, got, err, tt.want)
		}
	}
	if got := eval(t, e,
		"return {type(redis.debug), type(redis.breakpoint), type(redis.replicate_commands)}"); strings.Count(got,
		"function") != 3 {
		t.Errorf("%q", got)
	}
}
