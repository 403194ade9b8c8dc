package rdb

import (
	"fmt"

	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// moduleAux skips the data of a module without a key: its type, the time at which it is read, and parts.
func (r *reader) moduleAux(skip bool) (name string) {
	name = raw.ModuleName(r.Length())
	if !skip {
		r.Fail(fmt.Errorf("%w: the data of a module", ErrUnsupported))
		return ""
	}
	r.Length()
	r.Length()
	r.ModuleParts(false)
	return name
}

// module reads the value of a module. For an unknown module the kind is NoKind, and String is the reason.
func (r *reader) module(v *Value) {
	id := r.Length()
	name, version := raw.ModuleName(id), id&1023
	switch {
	case r.Err != nil:
	case name == "ReJSON-RL" && (version == 2 || version == 3):
		parts := r.ModuleParts(true)
		if len(parts) == 0 || parts[0].Kind != raw.ModuleString {
			r.Failf("JSON document without a text")
			return
		}
		v.Kind, v.String = JSON, parts[0].S
	case name == "TDIS-TYPE" && version == 0:
		v.Kind, v.TDigest = TDigest, r.TDigest()
	case name == "MBbloomCF" && version == 4:
		v.Kind, v.Cuckoo = Cuckoo, r.Cuckoo()
	case name == "MBbloom--":
		r.skipModule(v, "a bloom filter of RedisBloom: its bits are of another hash function than those of a filter here")
	default:
		r.skipModule(v, fmt.Sprintf("a value of the module type %s, encoding %d", name, version))
	}
}

func (r *reader) skipModule(v *Value, why string) {
	if !r.skip {
		r.Fail(fmt.Errorf("%w: %s", ErrUnsupported, why))
		return
	}
	v.Kind, v.String = NoKind, []byte(why)
	r.ModuleParts(false)
}

// appendModule appends a JSON document, a t-digest or a cuckoo filter.
func appendModule(dst []byte, v *Value) []byte {
	dst = append(dst, typeModule2)
	switch v.Kind {
	case JSON:
		dst = raw.AppendLength(dst, raw.ModuleID("ReJSON-RL", 3))
		return append(AppendString(append(dst, raw.ModuleString), v.String), raw.ModuleEnd)
	case Cuckoo:
		return v.Cuckoo.Append(raw.AppendLength(dst, raw.ModuleID("MBbloomCF", 4)))
	default:
		return v.TDigest.Append(raw.AppendLength(dst, raw.ModuleID("TDIS-TYPE", 0)))
	}
}
