package lua

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/resp"
)

// loadTicks is the max number of instructions for loading a library: no one can stop the loading, and it has no time
// limit.
const loadTicks = 10 << 20

var (
	errLoadTime       = errors.New("FUNCTION LOAD timeout")
	errKilledFunction = &Stopped{"Script killed by user with FUNCTION KILL."}
)

// libraryName is Redis's name for the source of a library in errors.
const libraryName = "user_function"

// Library is a function library. Values in local variables of its functions persist between calls as long as the
// library.
type Library struct {
	Name      string
	Source    string
	Functions []*Function // in the order of registration
	code      *code
	// resident is the library's own virtual machine. It is nil if the functions are stateless: then each virtual
	// machine that calls one loads the library first.
	resident *resident
}

// Resident reports whether the library has its own virtual machine, because its functions may keep state between calls.
func (l *Library) Resident() bool { return l.resident != nil }

// Function is a function of a library.
type Function struct {
	Description    string
	HasDescription bool
	Library        *Library
	name           string
	flags          Flags
}

// Name returns the name for calls.
func (f *Function) Name() string { return f.name }

// Flags returns the flags of the registration.
func (f *Function) Flags() Flags { return f.flags }

// loading collects what a library registers while it is loaded.
type loading struct {
	library   *Library
	functions map[string]*vm.LFunction
}

func validName(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool { return !isLetter(c) && !isDigit(c) && c != '_' })
}

func refuse(format string, args ...any) error {
	return &Error{Text: "ERR " + fmt.Sprintf(format, args...)}
}

const textName = "Library names can only contain letters, numbers, or underscores(_) and must be at least one " +
	"character long"

// Library compiles and loads the source of a library, which begins with "#!lua name=NAME".
func (e *Engine) Library(source []byte) (*Library, error) { return e.library(source, false) }

// StoredLibrary is Library for a library that was accepted before, perhaps by Kvrocks, where libraries can use all
// globals while they are loaded.
func (e *Engine) StoredLibrary(source []byte) (*Library, error) {
	l, err := e.library(source, false)
	if err != nil {
		l, err = e.library(source, true)
	}
	return l, err
}

func LibraryName(source []byte) (string, error) {
	l, _, err := libraryHeader(source)
	if err != nil {
		return "", err
	}
	return l.Name, nil
}

// libraryHeader parses the first line of a source. It returns the library without its code, and the rest of the source.
func libraryHeader(source []byte) (l *Library, rest []byte, err error) {
	if !bytes.HasPrefix(source, []byte("#!")) {
		return nil, nil, refuse("Missing library metadata")
	}
	line, _, found := bytes.Cut(source, []byte("\n"))
	words, ok := resp.SplitArgs(bytes.Clone(line), nil)
	if !found || !ok || len(words) == 0 {
		return nil, nil, refuse("Invalid library metadata")
	}
	l = &Library{Source: string(source)}
	named := false
	for _, w := range words[1:] {
		const option = "name="
		switch {
		case len(w) < len(option) || !strings.EqualFold(string(w[:len(option)]), option):
			return nil, nil, refuse("Invalid metadata value given: %s", w)
		case named:
			return nil, nil, refuse("Invalid metadata value, name argument was given multiple times")
		}
		named, l.Name = true, string(w[len(option):])
	}
	if !named {
		return nil, nil, refuse("Library name was not given")
	}
	if !validName(l.Name) {
		return nil, nil, refuse(textName)
	}
	if engine := words[0][2:]; !strings.EqualFold(string(engine), "lua") {
		return nil, nil, refuse("Engine '%s' not found", engine)
	}
	return l, source[len(line):], nil
}

// library is Library; with lenient, the library can use all globals while it is loaded.
func (e *Engine) library(source []byte, lenient bool) (*Library, error) {
	l, text, err := libraryHeader(source)
	if err != nil {
		return nil, err
	}
	c, err := compile(text, libraryName, 0)
	if err != nil {
		return nil, refuse("Error compiling function: %s", err)
	}
	l.code = c
	st, err := e.take()
	if err != nil {
		return nil, err
	}
	defer func() { e.put(st) }()
	loaded, err := st.load(l, lenient)
	if err != nil {
		st = nil // it may be in any state: do not use it again
		return nil, refuse("Error registering functions: %s", err)
	}
	if len(l.Functions) == 0 {
		return nil, refuse("No functions registered")
	}
	if l.resident = settle(st, loaded); l.resident != nil || lenient {
		// If a virtual machine loads a lenient library a second time, it might behave differently: it could read the
		// time.
		if l.resident == nil {
			l.resident = newResident(st)
		}
		st.resident, st.loaded = l.resident, nil
		st.keep(l, loaded)
		st = nil
		return l, nil
	}
	st.keep(l, loaded)
	return l, nil
}

// load runs a library, which can access only redis for libraries; with lenient, also the other globals. The first load
// creates the list of its functions.
func (st *state) load(l *Library, lenient bool) (map[string]*vm.LFunction, error) {
	running, ticks, calls, waiting := st.running, st.ticks, st.calls, st.waiting
	st.calls, st.waiting = 0, 0
	st.running, st.ticks, st.stop = false, 0, nil
	env := st.libraries()
	globals := entries(env.raw)
	if !lenient {
		for i := 0; i < len(globals); i += 2 {
			store(nil, env.raw, globals[i], vm.LNil)
		}
	}
	storeName(env.raw, "redis", st.loadRedis)
	st.loading = &loading{library: &Library{}, functions: map[string]*vm.LFunction{}}
	defer func() {
		for i := 0; i < len(globals); i += 2 {
			store(nil, env.raw, globals[i], globals[i+1])
		}
		st.running, st.ticks, st.calls, st.waiting, st.loading = running, ticks, calls, waiting, nil
	}()
	err := st.protectedStop(st.functionIn(env, l.code))
	if err != nil {
		return nil, err
	}
	if l.Functions == nil {
		l.Functions = st.loading.library.Functions
		for _, f := range l.Functions {
			f.Library = l
		}
	}
	return st.loading.functions, nil
}

// protectedStop is protected for code that may be stopped.
func (st *state) protectedStop(f *vm.LFunction) error {
	st.main.SetTop(0)
	st.main.Push(f)
	if err := st.main.PCall(0, 0, st.explain); err != nil {
		if stop := st.stop; stop != nil {
			st.stop = nil
			return errors.New("ERR " + stop.Error())
		}
		if ae, ok := errors.AsType[*vm.ApiError](err); ok {
			if t, ok := ae.Object.(*vm.LTable); ok {
				return errors.New(plainText(t.RawGetString("err")))
			}
			return errors.New("ERR " + plainText(translate(ae.Object)))
		}
		return err
	}
	return nil
}

// entries returns the keys and values of a table, alternating.
func entries(t *vm.LTable) (list []vm.LValue) {
	for k, v := range each(t) {
		list = append(list, k, v)
	}
	return list
}

// maxLoaded is the max number of libraries that a state keeps loaded.
const maxLoaded = 64

func (st *state) keep(l *Library, functions map[string]*vm.LFunction) {
	if st.loaded == nil || len(st.loaded) >= maxLoaded {
		st.loaded = map[*Library]map[string]*vm.LFunction{}
	}
	st.loaded[l] = functions
}

func (f *Function) on(st *state) (*vm.LFunction, error) {
	functions := st.loaded[f.Library]
	if functions == nil {
		var err error
		if functions, err = st.load(f.Library, false); err != nil {
			return nil, err
		}
		st.keep(f.Library, functions)
	}
	if fn := functions[f.name]; fn != nil {
		return fn, nil
	}
	return nil, errors.New("ERR Function not found")
}

// redisRegister is redis.register_function(name, callback) or redis.register_function{function_name=, callback=, ...}.
func redisRegister(L *vm.LState) int {
	st := stateOf(L)
	if st.loading == nil {
		raisePlain(L, "ERR redis.register_function can only be called on FUNCTION LOAD command")
	}
	f := &Function{}
	var callback *vm.LFunction
	switch n := L.GetTop(); n {
	case 1:
		t, ok := L.Get(1).(*vm.LTable)
		if !ok {
			raisePlain(L,
				"ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named "+
					"arguments).")
		}
		callback = registerNamed(L, f, t)
	case 2:
		var ok bool
		if f.name, ok = toString(L.Get(1)); !ok {
			raisePlain(L, "ERR first argument to redis.register_function must be a string")
		}
		if callback, ok = L.Get(2).(*vm.LFunction); !ok {
			raisePlain(L, "ERR second argument to redis.register_function must be a function")
		}
	default:
		raisePlain(L, "ERR wrong number of arguments to redis.register_function")
	}
	if !validName(f.name) {
		raisePlain(L, "ERR "+textName)
	}
	l := st.loading
	if l.functions[f.name] != nil {
		raisePlain(L, "ERR Function already exists in the library")
	}
	charge(L, 256)
	l.functions[f.name] = callback
	l.library.Functions = append(l.library.Functions, f)
	return 0
}

func registerNamed(L *vm.LState, f *Function, t *vm.LTable) (callback *vm.LFunction) {
	for k, v := range pairs(t) {
		name, ok := toString(k)
		if !ok {
			raisePlain(L, "ERR named argument key given to redis.register_function is not a string")
		}
		switch strings.ToLower(name) {
		case "function_name":
			if f.name, ok = toString(v); !ok {
				raisePlain(L, "ERR function_name argument given to redis.register_function must be a string")
			}
		case "description":
			if f.Description, ok = toString(v); !ok {
				raisePlain(L, "ERR description argument given to redis.register_function must be a string")
			}
			f.HasDescription = true
		case "callback":
			if callback, ok = v.(*vm.LFunction); !ok {
				raisePlain(L, "ERR callback argument given to redis.register_function must be a function")
			}
		case "flags":
			flags, ok := v.(*vm.LTable)
			if !ok {
				raisePlain(L, "ERR flags argument to redis.register_function must be a table representing function flags")
			}
			for i := 1; rawGetInt(flags, i) != vm.LNil; i++ {
				s, _ := toString(rawGetInt(flags, i))
				flag := parseFlag(strings.ToLower(s))
				if flag == 0 {
					raisePlain(L, "ERR unknown flag given")
				}
				f.flags |= flag
			}
		default:
			raisePlain(L, "ERR unknown argument given to redis.register_function")
		}
	}
	if f.name == "" {
		raisePlain(L, "ERR redis.register_function must get a function name argument")
	}
	if callback == nil {
		raisePlain(L, "ERR redis.register_function must get a callback argument")
	}
	return callback
}

// environment is a table of globals.
type environment struct {
	raw   *vm.LTable // the environment of functions; scripts can only access shown
	shown *vm.LTable // _G
}

// forScripts are the fields of redis that function libraries do not have.
var forScripts = []string{"breakpoint", "debug", "replicate_commands"}

func (st *state) libraries() environment {
	if st.libEnv.raw != nil {
		return st.libEnv
	}
	raw := newTable(0, 64)
	for list := entries(st.global); len(list) > 0; list = list[2:] {
		if list[1] != st.keys && list[1] != st.argv {
			store(nil, raw, list[0], list[1])
		}
	}
	raw.Metatable = st.global.Metatable
	redis := newTable(0, 32)
	for list := entries(real(raw.RawGetString("redis").(*vm.LTable))); len(list) > 0; list = list[2:] {
		store(nil, redis, list[0], list[1])
	}
	for _, name := range forScripts {
		storeName(redis, name, vm.LNil)
	}
	storeName(raw, "redis", st.readOnly(redis))
	st.libEnv = environment{raw, st.readOnly(raw)}
	storeName(raw, "_G", st.libEnv.shown)
	return st.libEnv
}

// loadRedisTable creates the redis table for libraries that are being loaded: they cannot call commands.
func (st *state) loadRedisTable(t *vm.LTable) {
	l := newTable(0, 16)
	for k, v := range pairs(t) {
		name, _ := k.(vm.LString)
		switch {
		case strings.HasPrefix(string(name), "LOG_"), strings.HasPrefix(string(name), "REDIS_"), name == "log":
			store(nil, l, k, v)
		}
	}
	storeName(l, "register_function", st.main.NewFunction(redisRegister))
	l.Metatable = st.missing
	st.loadRedis = st.readOnly(l)
}
