package lua

import (
	"errors"

	vm "github.com/yuin/gopher-lua"
)

// loadTicks bounds the instructions that loading a library takes.
const loadTicks = 10 << 20

var (
	errLoadTime       = errors.New("FUNCTION LOAD timeout")
	errKilledFunction = &Stopped{"Script killed by user with FUNCTION KILL."}
)

// Function is a function of a library.
type Function struct {
	name string
}

func (f *Function) on(st *state) *vm.LFunction { return nil }

func redisRegister(L *vm.LState) int {
	raisePlain(L, "ERR redis.register_function can only be called on FUNCTION LOAD command")
	return 0
}
