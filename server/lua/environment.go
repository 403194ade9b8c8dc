package lua

import (
	vm "github.com/yuin/gopher-lua"
)

// environmentOf returns the table of a function's globals as scripts may see it.
func environmentOf(L *vm.LState, f *vm.LFunction) *vm.LTable {
	st := stateOf(L)
	if f == nil || f.IsG || f.Env == nil || f.Env == st.global {
		return st.globals
	}
	return f.Env
}

// functionArg returns the function that argument 1 of getfenv or setfenv means: the function itself, or the running one at a
// level of the stack. nil = level 0, the script as a whole.
func functionArg(L *vm.LState, level int) *vm.LFunction {
	if f, ok := L.Get(1).(*vm.LFunction); ok {
		return f
	}
	if level < 0 {
		level = checkInt32(L, 1)
	}
	if level < 0 {
		argError(L, 1, "level must be non-negative")
	}
	if level == 0 {
		return nil
	}
	d, ok := L.GetStack(level)
	if !ok {
		argError(L, 1, "invalid level")
	}
	f, err := L.GetInfo("f", d, vm.LNil)
	if err != nil {
		argError(L, 1, "invalid level")
	}
	fn, _ := f.(*vm.LFunction)
	return fn
}

func baseGetFEnv(L *vm.LState) int {
	level := -1
	if isNoneOrNil(L, 1) {
		level = 1
	}
	L.Push(environmentOf(L, functionArg(L, level)))
	return 1
}

func baseSetFEnv(L *vm.LState) int {
	env := checkTable(L, 2)
	f := functionArg(L, -1)
	switch {
	case f == nil && env == stateOf(L).globals:
		return 0 // as it is; another one would be that of all scripts to come
	case f == nil || f.IsG:
		raise(L, "'setfenv' cannot change environment of given object")
	}
	f.Env = env
	L.Push(f)
	return 1
}

// proxy marks the values that newproxy has made.
type proxy struct{}

func baseNewProxy(L *vm.LState) int {
	u := &vm.LUserData{Value: proxy{}, Env: stateOf(L).globals, Metatable: vm.LNil}
	switch v := L.Get(1).(type) {
	case *vm.LNilType:
	case vm.LBool:
		if v {
			u.Metatable = newTable(0, 0)
		}
	case *vm.LUserData:
		if _, ok := v.Value.(proxy); !ok || v.Metatable == vm.LNil {
			argError(L, 1, "boolean or proxy expected")
		}
		u.Metatable = v.Metatable
	default:
		argError(L, 1, "boolean or proxy expected")
	}
	L.Push(u)
	return 1
}
