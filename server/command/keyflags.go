package command

import (
	"fmt"
	"strings"
	"sync"
)

// keyFlags say what a command does with a key, as COMMAND GETKEYSANDFLAGS tells it and as the ACL checks it. The first four
// are about the record, and a key has one of them; the others are about what the user has stored there.
type keyFlags uint16

const (
	keyRO     keyFlags = 1 << iota // only reads it
	keyRW                          // may read it and change it
	keyOW                          // replaces it, whatever it was
	keyRM                          // deletes it
	keyAccess                      // its data is returned, copied or used
	keyUpdate                      // data is changed
	keyInsert                      // data is added, and none is changed
	keyDelete                      // data is deleted
	keyVaries                      // only in COMMAND INFO: it depends on the arguments
)

var keyFlagNames = []string{"RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "variable_flags"}

// names returns the words of COMMAND GETKEYSANDFLAGS.
func (f keyFlags) names() (list []string) {
	for i, name := range keyFlagNames {
		if f&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// parseKeyFlags reads the form that they have in commandKeyFlags.
func parseKeyFlags(text string) (f keyFlags) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' }) {
		i := 0
		for i < len(keyFlagNames) && keyFlagNames[i] != word {
			i++
		}
		if i == len(keyFlagNames) {
			panic(fmt.Sprintf("no flag of keys: %s", word))
		}
		f |= 1 << i
	}
	return f
}

// commandKeyFlags are the flags of the keys of commands where they do not follow from the command's own: the first key, the
// second one, and so on; the last word is for all others. What Redis 7.2 has is as there, src/commands/*.json.
var commandKeyFlags = map[string]string{
	"OW:insert":           "msetnx setnx",
	"OW:update":           "mset psetex restore restore-asking set setex",
	"OW:update RO:access": "bitop geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore zunionstore",
	"RM:delete":           "del unlink",
	"RO": "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq object|idletime object|refcount scard sicard siexists " +
		"sismember strlen touch type watch xlen zcard",
	"RO:access":                  "xreadgroup",
	"RO:access OW:update":        "copy georadius georadiusbymember sort",
	"RW:access":                  "pfcount pfdebug",
	"RW:access,delete":           "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel hgetdel lmpop lpop rpop spop zmpop zpopmax zpopmin",
	"RW:access,delete OW:insert": "renamenx",
	"RW:access,delete OW:update": "rename",
	"RW:access,delete RW:insert": "blmove brpoplpush lmove rpoplpush smove",
	"RW:access,insert RO:access": "pfmerge",
	"RW:delete": "hdel lrem ltrim srem xautoclaim xdel xgroup|delconsumer xgroup|destroy xtrim zrem zremrangebylex zremrangebyrank " +
		"zremrangebyscore json.del json.forget sirem",
	"RW:insert": "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd xgroup|create xgroup|createconsumer bf.add bf.insert bf.madd " +
		"bf.reserve siadd tdigest.add tdigest.create",
	"RW:update": "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange xack xadd xclaim xgroup|setid xsetid zadd " +
		"hexpire hexpireat hpersist hpexpire hpexpireat hsetex json.mset json.set tdigest.reset",
	"RW:update RO:access": "sinterstore tdigest.merge",
}

const (
	readerKeyFlags = keyRO | keyAccess
	writerKeyFlags = keyRW | keyAccess | keyUpdate
)

// keyFlagsByID is commandKeyFlags by the ID of the Spec, with what follows from the command's flags for the others.
var keyFlagsByID = sync.OnceValue(func() [][]keyFlags {
	byName := map[string][]keyFlags{}
	for text, names := range commandKeyFlags {
		var list []keyFlags
		for _, word := range strings.Fields(text) {
			list = append(list, parseKeyFlags(word))
		}
		for _, name := range strings.Fields(names) {
			byName[name] = list
		}
	}
	table := make([][]keyFlags, NumSpecs())
	for id := range table {
		s := ByID(id)
		list, ok := byName[s.FullName()]
		switch {
		case ok:
		case s.Flags&ReadOnly != 0:
			list = []keyFlags{readerKeyFlags}
		default:
			list = []keyFlags{writerKeyFlags}
		}
		table[id] = list
	}
	return table
})

// keyFlags returns the flags of the n-th key that AppendKeys has found in the arguments.
func (s *Spec) keyFlags(n int, args [][]byte) keyFlags {
	switch {
	case s.full == "set" && setReturnsOld(args):
		return writerKeyFlags
	case s.full == "bitfield" && onlyGets(args):
		return readerKeyFlags
	}
	list := keyFlagsByID()[s.ID]
	return list[min(n, len(list)-1)]
}

// specFlags returns what COMMAND INFO says of a command's keys. Where they differ from key to key it is the widest.
func (s *Spec) specFlags() keyFlags {
	list := keyFlagsByID()[s.ID]
	switch {
	case s.full == "set" || s.full == "bitfield":
		return writerKeyFlags | keyVaries
	case len(list) > 1:
		return writerKeyFlags
	}
	return list[0]
}

// setReturnsOld reports whether SET has the option GET.
func setReturnsOld(args [][]byte) bool {
	for i := 3; i < len(args); i++ {
		if EqualFold(args[i], "GET") {
			return true
		}
	}
	return false
}

// onlyGets reports whether BITFIELD changes nothing. Malformed arguments may change something.
func onlyGets(args [][]byte) bool {
	for i := 2; i < len(args); {
		switch left := len(args) - i - 1; {
		case EqualFold(args[i], "GET") && left >= 2:
			i += 3
		case EqualFold(args[i], "OVERFLOW") && left >= 1:
			i += 2
		default:
			return false
		}
	}
	return true
}
