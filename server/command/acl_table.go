package command

import (
	"strings"
	"sync"

	"github.com/basaltdb/basalt/server/acl"
)

// ACLTable returns the commands as rules name them: by their own names, whatever they are renamed to. The ID of a
// command there is that of its Spec.
var ACLTable = sync.OnceValue(func() *acl.Table {
	list := make([]acl.Command, NumSpecs())
	for id := range list {
		s := ByID(id)
		c := acl.Command{Name: s.FullName(), NoAuth: s.Flags&NoAuth != 0}
		for _, cat := range s.ACLCategories() {
			c.Categories = append(c.Categories, strings.TrimPrefix(cat, "@"))
		}
		list[id] = c
	}
	t, err := acl.NewTable(list, func(pattern []byte) acl.Matcher { return CompileGlob(pattern) })
	if err != nil {
		panic(err) // register has checked the names
	}
	return t
})

// keyUse is what a command does with the value of a key.
type keyUse struct{ read, write bool }

// keyUses says it of the commands for which it does not follow from their flags: the first key, the second one, and
// so on; the last word is for all others. r = reads it, w = writes it without telling the client of it, - = tells no
// more than that it is there or how big it is. Other writers read and write, other readers read.
var keyUses = map[string]string{
	"bitop": "w r", "copy": "r w", "georadius": "r w", "georadiusbymember": "r w", "geosearchstore": "w r", "pfdebug": "r",
	"pfmerge": "rw r", "sdiffstore": "w r", "sinterstore": "w r", "sort": "r w", "sunionstore": "w r", "xreadgroup": "r",
	"zdiffstore": "w r", "zinterstore": "w r", "zrangestore": "w r", "zunionstore": "w r",

	"blmove": "rw w", "brpoplpush": "rw w", "lmove": "rw w", "rename": "rw w", "renamenx": "rw w", "rpoplpush": "rw w", "smove": "rw w",

	"append": "w", "del": "w", "expire": "w", "expireat": "w", "geoadd": "w", "hdel": "w", "hmset": "w", "hset": "w", "hsetnx": "w",
	"linsert": "w", "lpush": "w", "lpushx": "w", "lrem": "w", "lset": "w", "ltrim": "w", "mset": "w", "msetnx": "w", "persist": "w",
	"pexpire": "w", "pexpireat": "w", "pfadd": "w", "psetex": "w", "restore": "w", "restore-asking": "w", "rpush": "w", "rpushx": "w", "sadd": "w", "setex": "w",
	"setnx": "w", "setrange": "w", "srem": "w", "unlink": "w", "xack": "w", "xadd": "w", "xautoclaim": "w", "xclaim": "w", "xdel": "w",
	"xgroup|create": "w", "xgroup|createconsumer": "w", "xgroup|delconsumer": "w", "xgroup|destroy": "w", "xgroup|setid": "w",
	"xsetid": "w", "xtrim": "w", "zadd": "w", "zrem": "w", "zremrangebylex": "w", "zremrangebyrank": "w", "zremrangebyscore": "w",
	"hexpire": "w", "hpexpire": "w", "hexpireat": "w", "hpexpireat": "w", "hpersist": "w", "hsetex": "w",
	"bf.add": "w", "bf.insert": "w", "bf.madd": "w", "bf.reserve": "w", "json.del": "w", "json.forget": "w", "json.mset": "w",
	"json.set": "w", "siadd": "w", "sirem": "w", "tdigest.add": "w", "tdigest.create": "w", "tdigest.reset": "w", "tdigest.merge": "w r",

	"exists": "-", "hexists": "-", "hlen": "-", "hstrlen": "-", "llen": "-", "memory|usage": "-", "object|encoding": "-", "object|freq": "-",
	"object|idletime": "-", "object|refcount": "-", "scard": "-", "sismember": "-", "strlen": "-", "touch": "-", "type": "-", "watch": "-",
	"xlen": "-", "zcard": "-", "sicard": "-", "siexists": "-",
}

// usesByID is keyUses by the ID of the Spec, with what follows from the flags for the others.
var usesByID = sync.OnceValue(func() [][]keyUse {
	table := make([][]keyUse, NumSpecs())
	for id := range table {
		s := ByID(id)
		text, ok := keyUses[s.FullName()]
		switch {
		case ok:
		case s.Flags&ReadOnly != 0:
			text = "r"
		default:
			text = "rw"
		}
		for _, word := range strings.Fields(text) {
			table[id] = append(table[id], keyUse{strings.Contains(word, "r"), strings.Contains(word, "w")})
		}
	}
	return table
})

// ACLKeys appends what acl.User.Check wants to know of the keys that AppendKeys has found in the arguments. Shard
// channels, which are routed like keys, are none.
func (s *Spec) ACLKeys(dst []acl.Key, refs []KeyRef, args [][]byte) []acl.Key {
	if s.Flags&PubSub != 0 {
		return dst
	}
	uses := usesByID()[s.ID]
	for i, ref := range refs {
		use := uses[min(i, len(uses)-1)]
		switch s.full {
		case "set":
			use = keyUse{read: setReturnsOld(args), write: true}
		case "bitfield":
			if onlyGets(args) {
				use.write = false
			}
		}
		dst = append(dst, acl.Key{Arg: ref.Arg, Read: use.read, Write: use.write})
	}
	return dst
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

// onlyGets reports whether BITFIELD has no other subcommands than GET. Malformed arguments are not GET.
func onlyGets(args [][]byte) bool {
	for i := 2; i < len(args); i += 3 {
		if !EqualFold(args[i], "GET") {
			return false
		}
	}
	return true
}

// ACLChannels returns which of the arguments are channels that a user must be allowed to use. To leave a channel
// needs no permission.
func (s *Spec) ACLChannels(args [][]byte) acl.Channels {
	if s.Flags&PubSub == 0 {
		return acl.Channels{}
	}
	switch s.full {
	case "subscribe", "ssubscribe":
		return acl.Channels{First: 1, Last: len(args)}
	case "psubscribe":
		return acl.Channels{First: 1, Last: len(args), Pattern: true}
	case "publish", "spublish", "mpublish":
		return acl.Channels{First: 1, Last: 2}
	}
	return acl.Channels{}
}
