//lint:file-ignore U1000 the fields are there for where they are

package lua

import (
	"reflect"
	"testing"

	vm "github.com/yuin/gopher-lua"
)

// A virtual machine whose structures differ from what is expected is refused.
func TestLayoutIsVerified(t *testing.T) {
	type renamed struct {
		Metatable vm.LValue
		list      []vm.LValue
		dict      map[vm.LValue]vm.LValue
		strdict   map[string]vm.LValue
		keys      []vm.LValue
		k2i       map[vm.LValue]int
	}
	type longer struct {
		contents
		more int
	}
	type moved struct {
		array     []vm.LValue
		Metatable vm.LValue
		dict      map[vm.LValue]vm.LValue
		strdict   map[string]vm.LValue
		keys      []vm.LValue
		k2i       map[vm.LValue]int
	}
	for _, ours := range []reflect.Type{reflect.TypeFor[renamed](), reflect.TypeFor[longer](), reflect.TypeFor[moved]()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is accepted", ours)
				}
			}()
			verifyLayout(reflect.TypeFor[vm.LTable](), ours)
		}()
	}
}

// The structures show what the public functions of the virtual machine show.
func TestLayoutShowsTheMachine(t *testing.T) {
	st := newState(newEngine(t, 0))
	m := machineOf(st.main)
	if m.G != st.main.G || m.ctx != st.main.Context() || m.Options != st.main.Options {
		t.Error("a machine is not what it shows")
	}
	table := newTable(0, 0)
	table.RawSetInt(2, vm.LTrue)
	table.RawSetString("x", vm.LFalse)
	table.RawSet(vm.LNumber(0.5), vm.LTrue)
	c := contentsOf(table)
	if len(c.array) != 2 || c.array[1] != vm.LTrue || c.strdict["x"] != vm.LFalse ||
		c.dict[vm.LNumber(0.5)] != vm.LTrue || len(c.keys) != 2 || c.k2i[vm.LString("x")] != 0 {
		t.Errorf("a table is not what it shows: %+v", c)
	}
	called := false
	storeName(st.global, "look", st.main.NewFunction(func(L *vm.LState) int {
		called = true
		f := machineOf(L).currentFrame
		if L.GetTop() != 2 || machineOf(L).reg.array[f.LocalBase+1] != L.Get(2) || f.Idx != 1 || f.Parent.Fn.IsG ||
			f.Parent.Pc == 0 || f.NArgs != 2 {
			t.Errorf("a frame is not what it shows: %+v", f)
		}
		return 0
	}))
	code, err := compile([]byte("look(1, 'two')"), "test", 1)
	if err != nil {
		t.Fatal(err)
	}
	st.main.Push(st.function(code))
	if err := st.main.PCall(0, 0, nil); err != nil || !called {
		t.Error(called, err)
	}
}
