package raw

import (
	"math"
	"strings"
)

// The value of a module names its type, and is a sequence of numbers and strings, so that it can be passed over:
//
//	u64: name and version of the type · (length: what follows · number or string) · 0
//
// The first number has 54 bits for nine characters of six bits each, and ten bits for the version of the encoding.
const (
	ModuleEnd    = 0
	ModuleSint   = 1 // length
	ModuleUint   = 2 // length
	moduleFloat  = 3 // f32
	ModuleDouble = 4 // f64
	ModuleString = 5 // string
)

const moduleChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// ModuleName returns the name of a module's type.
func ModuleName(id uint64) string {
	var name [9]byte
	for i := range name {
		name[i] = moduleChars[id>>(64-6*(i+1))&63]
	}
	return string(name[:])
}

// ModulePart is a number or a string of a module's value.
type ModulePart struct {
	Kind uint64 // ModuleSint or a following constant
	N    uint64
	F    float64
	S    []byte
}

// maxModuleParts is the max number of parts that are kept of a value. A t-digest has about as many centroids as its
// compression, a chain of cuckoo filters two parts for each of up to 65,535 filters.
const maxModuleParts = 1<<17 + 1<<10

// ModuleParts reads numbers and strings up to the end of a value. It returns them if keep is true.
func (r *Reader) ModuleParts(keep bool) (parts []ModulePart) {
	for r.Err == nil {
		p := ModulePart{Kind: r.Length()}
		switch p.Kind {
		case ModuleEnd:
			return parts
		case ModuleSint, ModuleUint:
			p.N = r.Length()
		case moduleFloat:
			r.Fixed(4)
		case ModuleDouble:
			p.F = math.Float64frombits(r.U64())
		case ModuleString:
			p.S = r.String()
		default:
			r.Failf("part %d of the value of a module", p.Kind)
		}
		switch {
		case keep && len(parts) == maxModuleParts:
			r.Fail(ErrTooLarge)
		case keep:
			r.Spend(ElemCost)
			parts = append(parts, p)
		case p.S != nil: // strings are not kept
			r.Budget, r.Chunk = r.Budget+int64(len(p.S))+ElemCost, nil
		}
	}
	return nil
}

// ModuleID is the inverse of ModuleName, for a name of nine characters.
func ModuleID(name string, version uint64) (id uint64) {
	for i := range len(name) {
		id = id<<6 | uint64(strings.IndexByte(moduleChars, name[i]))
	}
	return id<<10 | version
}
