package lua

import (
	"fmt"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// Levels of redis.log.
const (
	LogDebug = iota
	LogVerbose
	LogNotice
	LogWarning
)

const (
	replAOF     = 1
	replReplica = 2
)

// callCost is the cost of a command in instructions.
const callCost = 32

func openRedis(st *state, L *vm.LState) {
	others := map[string]vm.LValue{}
	for name, n := range map[string]int{"LOG_DEBUG": LogDebug, "LOG_VERBOSE": LogVerbose, "LOG_NOTICE": LogNotice,
		"LOG_WARNING": LogWarning,
		"REPL_NONE":   0, "REPL_AOF": replAOF, "REPL_SLAVE": replReplica, "REPL_REPLICA": replReplica,
		"REPL_ALL": replAOF | replReplica} {
		others[name] = vm.LNumber(n)
	}
	others["REDIS_VERSION"] = vm.LString(st.engine.options.Version)
	var major, minor, patch int
	fmt.Sscanf(st.engine.options.Version, "%d.%d.%d", &major, &minor, &patch)
	others["REDIS_VERSION_NUM"] = vm.LNumber(major<<16 | minor<<8 | patch)
	t := st.library(L, "redis", map[string]vm.LGFunction{
		"call":  func(L *vm.LState) int { return redisCall(L, true) },
		"pcall": func(L *vm.LState) int { return redisCall(L, false) },
		"log":   redisLog, "sha1hex": redisSHA, "error_reply": redisError, "status_reply": redisStatus,
		"setresp":            redisSetResp,
		"replicate_commands": func(L *vm.LState) int { return push(L, vm.LTrue) },
		"set_repl":           redisSetRepl, "acl_check_cmd": redisACL,
		"breakpoint": func(L *vm.LState) int { return push(L, vm.LFalse) },
		"debug":      func(L *vm.LState) int { return 0 },
	}, others)
	st.loadRedisTable(t)
}

const (
	textNoArgs   = "ERR Please specify at least one argument for this redis lib call"
	textBadArgs  = "ERR Lua redis lib command arguments must be strings or integers"
	textOutside  = "ERR redis.call/pcall can only be called inside a script invocation"
	textNoEngine = "ERR redis.%s can only be called inside a script invocation"
)

// arguments copies the arguments of a call: command handlers may write to them, and strings of scripts must not change.
func (st *state) arguments(L *vm.LState) (args [][]byte, problem string) {
	n := L.GetTop()
	if n == 0 {
		return nil, textNoArgs
	}
	text := st.readBuf[:0]
	args = st.args[:0]
	ends := 0
	for i := 1; i <= n; i++ {
		var ok bool
		from := len(text)
		before := cap(text)
		if text, ok = appendArg(text, L.Get(i)); !ok {
			return nil, textBadArgs
		}
		if cap(text) != before { // reallocated; the earlier arguments stay valid in the old memory
			ends++
		}
		args = append(args, text[from:len(text):len(text)])
	}
	st.readBuf, st.args = text, args
	return args, ""
}

// redisCall is redis.call, and without raising redis.pcall.
func redisCall(L *vm.LState, raising bool) int {
	st := stateOf(L)
	fail := func(text string) int {
		t := errorTable(text)
		if raising {
			L.Error(t, 0)
		}
		return push(L, t)
	}
	if !st.running {
		return fail(textOutside)
	}
	args, problem := st.arguments(L)
	if problem != "" {
		return fail(problem)
	}
	work(L, callCost)
	w := &st.reply.w
	w.Reset()
	w.Proto = st.resp
	// The values of a reply take as much as the reply at least, beside it.
	w.Limit(int(max(st.engine.options.MemoryLimit()/2, 0)))
	if err := st.run.Host.Call(args, w); err != nil {
		st.stop = err
		st.raiseStop(L)
	}
	if b := w.Bytes(); len(b) > 0 && b[0] != '-' && b[0] != '|' && machineOf(L).currentFrame.NRet == 0 {
		return 0 // the reply is not used
	}
	if w.Overflowed() {
		st.stop = errMemory
		st.raiseStop(L)
	}
	r := reader{st: st, b: w.Bytes()}
	v, err := r.value()
	if w.Len() > 64<<10 {
		w.Release(64 << 10)
	}
	if err == errStopped {
		st.raiseStop(L)
	}
	if err != nil {
		return fail("ERR " + err.Error())
	}
	if t, ok := v.(*vm.LTable); ok && raising && isCounted(t) {
		L.Error(t, 0)
	}
	return push(L, v)
}

func redisLog(L *vm.LState) int {
	n := L.GetTop()
	if n < 2 {
		raisePlain(L, "ERR redis.log() requires two arguments or more.")
	}
	f, ok := toNumber(L.Get(1))
	if !ok {
		raisePlain(L, "ERR First argument must be a number (log level).")
	}
	level := cInt32(f)
	if level < LogDebug || level > LogWarning {
		raisePlain(L, "ERR Invalid debug level.")
	}
	var parts []string
	for i := 2; i <= n; i++ {
		if s, ok := toString(L.Get(i)); ok {
			parts = append(parts, s)
		}
	}
	if st := stateOf(L); st.running {
		message := strings.Join(parts, " ")
		st.run.Host.Log(level, message[:min(len(message), 1024)])
	}
	return 0
}

func redisSHA(L *vm.LState) int {
	if L.GetTop() != 1 {
		raisePlain(L, "ERR wrong number of arguments")
	}
	s, _ := toString(L.Get(1))
	work(L, len(s)/64)
	return pushString(L, SHA([]byte(s)))
}

func redisError(L *vm.LState) int {
	v, ok := L.Get(1).(vm.LString)
	if L.GetTop() != 1 || !ok {
		return push(L, errorTable("ERR wrong number or type of arguments"))
	}
	s, _, _ := strings.Cut(string(v), "\x00")
	if !strings.HasPrefix(s, "-") {
		s = "-" + s
	}
	code, text, found := strings.Cut(s[1:], " ")
	if !found {
		code, text = "ERR", s[1:]
	}
	return push(L, errorTable(code+" "+strings.Trim(text, "\r\n")))
}

func redisStatus(L *vm.LState) int {
	s, ok := L.Get(1).(vm.LString)
	if L.GetTop() != 1 || !ok {
		return push(L, errorTable("ERR wrong number or type of arguments"))
	}
	return push(L, tagged("ok", s))
}

func redisSetResp(L *vm.LState) int {
	if L.GetTop() != 1 {
		raisePlain(L, "ERR redis.setresp() requires one argument.")
	}
	f, _ := toNumber(L.Get(1))
	n := cInt32(f)
	if n != 2 && n != 3 {
		raisePlain(L, "ERR RESP version must be 2 or 3.")
	}
	stateOf(L).resp = n
	return 0
}

func redisSetRepl(L *vm.LState) int {
	if L.GetTop() != 1 {
		raisePlain(L, "ERR redis.set_repl() requires one argument.")
	}
	f, _ := toNumber(L.Get(1))
	if cInt32(f)&^(replAOF|replReplica) != 0 {
		raisePlain(L, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}

func redisACL(L *vm.LState) int {
	st := stateOf(L)
	if !st.running {
		raisePlain(L, fmt.Sprintf(textNoEngine, "acl_check_cmd"))
	}
	args, problem := st.arguments(L)
	if problem != "" {
		raisePlain(L, problem)
	}
	allowed, known := st.run.Host.Allowed(args)
	if !known {
		raisePlain(L, "ERR Invalid command passed to redis.acl_check_cmd()")
	}
	return push(L, vm.LBool(allowed))
}
