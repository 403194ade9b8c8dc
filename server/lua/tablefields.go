package lua

import (
	"reflect"

	vm "github.com/yuin/gopher-lua"
)

// The fields of a table of the virtual machine, of which it does not say all that is of interest.
var (
	arrayField   = tableField("array", reflect.Slice)
	stringsField = tableField("strdict", reflect.Map) // values under texts
	othersField  = tableField("dict", reflect.Map)    // under other keys that are no places in the array
	keysField    = tableField("keys", reflect.Slice)  // of both, those of values that are gone too, in the order of insertion
	placesField  = tableField("k2i", reflect.Map)     // of keys in that list
)

func tableField(name string, kind reflect.Kind) []int {
	f, ok := reflect.TypeFor[vm.LTable]().FieldByName(name)
	if !ok || f.Type.Kind() != kind {
		panic("lua: a table of the virtual machine has no " + name)
	}
	return f.Index
}
