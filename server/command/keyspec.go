package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// What COMMAND INFO tells of a command beyond its row in the table: where its keys are, what it does with each, and
// hints for proxies. What a user must be allowed to do with the keys follows from it. The facts are those of Redis 7.2
// (src/commands/*.json); the commands that Redis does not have are described in the same words.

// keySpecs has a description and the commands that it fits. It is one key specification, or several with / between
// them: flags, and after an @ where the keys are, if not where the row says. Of the flags RO, RW, OW and RM say whether
// the value is left as it is, changed, overwritten or removed; access, that the client is told of it; insert, update
// and delete, what is done to it. Places:
//
//	3            the argument with this index
//	3 -1 1       from this index, up to the one so far from it (negative: from the end), every so many arguments
//	#2           as many as the number at this index says, after it
//	#1 2         the same, every second argument after it
//	STORE@6      the argument after this word, which is looked for from this index on
//	STORE@6 -1 1 2   from the argument after the word up to the end, all or (limit 2) the first half of them
//	?            none of the arguments: the names of these keys are made from other data
//	~            among the arguments, where this cannot say
//
// A command without a description is "RO access" when it is a reader and "RW access update" otherwise.
var keySpecs = map[string]string{
	"OW insert": "bf.loadchunk bf.reserve msetnx setnx tdigest.create",
	"OW update": "json.mset json.set mset psetex restore restore-asking setex",
	"RM delete": "del unlink",
	"RO": "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq object|idletime " +
		"kmetadata object|refcount scard sicard siexists sismember strlen touch type watch xlen zcard",
	"RW access":                       "pfcount pfdebug",
	"RW access delete":                "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel hgetdel lmpop lpop rpop spop zmpop zpopmax zpopmin",
	"RW access update":                "eval evalsha fcall",
	"RW delete update":                "xackdel",
	"RW access update variable_flags": "bitfield set",
	"RW delete": "delex hdel json.del json.forget lrem ltrim sirem srem tdigest.reset xautoclaim xdel xdelex " +
		"xgroup|delconsumer xgroup|destroy xtrim zrem zremrangebylex zremrangebyrank zremrangebyscore",
	"RW insert": "append bf.add bf.insert bf.madd hsetnx linsert lpush lpushx pfadd rpush rpushx sadd siadd " +
		"tdigest.add xgroup|create xgroup|createconsumer",
	"RW update": "expire expireat geoadd hexpire hexpireat hmset hpersist hpexpire hpexpireat hset hsetex hsetexpire " +
		"lset persist pexpire pexpireat setrange xack xadd xclaim xgroup|setid xsetid zadd",
	"not_key":                                                       "spublish ssubscribe sunsubscribe",
	"OW update @ #1 2":                                              "msetex",
	"OW update @ 1 / RO access @ #2":                                "zdiffstore zinterstore zunionstore",
	"OW update @ 1 / RO access @ 2":                                 "geosearchstore zrangestore",
	"OW update @ 1 / RO access @ 2 -1 1":                            "sdiffstore sunionstore",
	"OW update @ 2 / RO access @ 3 -1 1":                            "bitop",
	"RO access @ 1 / OW update @ 2":                                 "copy",
	"RO access @ 1 / OW update @ STORE@5 / OW update @ STOREDIST@5": "georadiusbymember",
	"RO access @ 1 / OW update @ STORE@6 / OW update @ STOREDIST@6": "georadius",
	"RO access @ 1 / RO access @ ?":                                 "sort_ro",
	"RO access @ 1 / RO access @ ? / OW update @ ~":                 "sort",
	"RO access @ STREAMS@1 -1 1 2":                                  "xread",
	"RO access @ STREAMS@4 -1 1 2":                                  "xreadgroup",
	"RW access delete / RW access delete incomplete @ KEYS@-2 -1 1": "migrate",
	"RW access delete @ 1 / OW insert @ 2":                          "renamenx",
	"RW access delete @ 1 / OW update @ 2":                          "rename",
	"RW access delete @ 1 / RW insert @ 2":                          "blmove brpoplpush lmove rpoplpush smove",
	"RW access insert @ 1 / RO access @ 2 -1 1":                     "pfmerge",
	"RW update @ 1 / RO access @ #2":                                "tdigest.merge",
	"RW update @ 1 / RO access @ 2 -1 1":                            "sinterstore",
}

// tips has hints for proxies and clients that talk to several servers, and the commands that they fit.
var tips = map[string]string{
	"nondeterministic_output": "client|info client|list dump hrandfield hscan lastsave migrate object|encoding object|freq object|idletime " +
		"hpttl httl object|refcount pttl spop srandmember sscan time ttl xadd xautoclaim xclaim xinfo|consumers xpending " +
		"xtrim zrandmember zscan",
	"nondeterministic_output request_policy:all_nodes response_policy:special":  "latency|doctor latency|graph latency|histogram latency|history latency|latest",
	"nondeterministic_output request_policy:all_shards response_policy:special": "function|stats info memory|doctor memory|malloc-stats memory|stats",
	"nondeterministic_output request_policy:special response_policy:special":    "scan",
	"nondeterministic_output_order": "module|list command command|docs command|info command|list function|list hgetall hkeys hvals sdiff sinter " +
		"smembers sunion",
	"request_policy:all_nodes nondeterministic_output":                         "slowlog|get",
	"request_policy:all_nodes response_policy:agg_sum":                         "latency|reset",
	"request_policy:all_nodes response_policy:agg_sum nondeterministic_output": "slowlog|len",
	"request_policy:all_nodes response_policy:all_succeeded": "acl|deluser acl|save acl|setuser client|setinfo client|setname config|resetstat config|rewrite " +
		"config|set script|flush script|load slowlog|reset",
	"request_policy:all_shards nondeterministic_output_order":                   "keys",
	"request_policy:all_shards response_policy:agg_logical_and":                 "script|exists",
	"request_policy:all_shards response_policy:agg_min":                         "wait waitaof",
	"request_policy:all_shards response_policy:agg_sum":                         "dbsize",
	"request_policy:all_shards response_policy:all_succeeded":                   "flushall flushdb function|delete function|flush function|load function|restore memory|purge ping",
	"request_policy:all_shards response_policy:one_succeeded":                   "function|kill script|kill",
	"request_policy:all_shards response_policy:special nondeterministic_output": "randomkey",
	"request_policy:multi_shard":                                                "mget",
	"request_policy:multi_shard response_policy:agg_sum":                        "del exists touch unlink",
	"request_policy:multi_shard response_policy:all_succeeded":                  "mset msetex",
}

// keySpec is a key specification of a command.
type keySpec struct {
	flags []string
	// begin is how the first of its keys is found: "index", "keyword" or "unknown"; find, how the others are:
	// "range", "keynum" or "unknown".
	begin, find string
	keyword     string
	at          int    // the index, of the key or of the number of keys; for a keyword the one to look from
	span        [3]int // of a range: last key, step, limit; of keynum: the number's index, the first key's, step
	built       bool   // the keys are not among the arguments
}

// has reports whether one of the flags is among these.
func (k *keySpec) has(flags ...string) bool {
	return slices.ContainsFunc(k.flags, func(f string) bool { return slices.Contains(flags, f) })
}

// described is what keySpecs and tips say of each command, by the ID of its Spec.
var described = sync.OnceValue(func() []struct {
	keys []keySpec
	tips []string
} {
	table := make([]struct {
		keys []keySpec
		tips []string
	}, NumSpecs())
	byName := map[string]string{}
	for text, names := range keySpecs {
		for _, name := range strings.Fields(names) {
			byName[name] = text
		}
	}
	for id := range table {
		s := ByID(id)
		text, ok := byName[s.FullName()]
		switch {
		case ok:
		case s.First == 0 && s.Keys == nil:
			continue
		case s.Flags&ReadOnly != 0:
			text = "RO access"
		default:
			text = "RW access update"
		}
		for _, one := range strings.Split(text, " / ") {
			table[id].keys = append(table[id].keys, s.parseKeySpec(one))
		}
	}
	for text, names := range tips {
		for _, name := range strings.Fields(names) {
			if s := byFullName(name); s != nil {
				table[s.ID].tips = strings.Fields(text)
			}
		}
	}
	return table
})

// byFullName finds a command, or a subcommand with its container's name and | before its own.
func byFullName(name string) *Spec {
	container, sub, has := strings.Cut(name, "|")
	s := Lookup([]byte(container))
	if s != nil && has {
		s = s.Subcommand([]byte(sub))
	}
	return s
}

// counted tells of commands that say themselves how many keys follow: the index of that number.
var counted = map[string]int{
	"blmpop": 2, "bzmpop": 2, "lmpop": 1, "zmpop": 1, "sintercard": 1, "zintercard": 1, "zdiff": 1, "zinter": 1, "zunion": 1,
	"eval": 2, "eval_ro": 2, "evalsha": 2, "evalsha_ro": 2, "fcall": 2, "fcall_ro": 2,
}

// parseKeySpec reads a key specification of the command as keySpecs has it. It panics when it makes no sense.
func (s *Spec) parseKeySpec(text string) keySpec {
	flags, place, has := strings.Cut(text, " @ ")
	k := keySpec{flags: strings.Fields(flags)}
	switch at, isCounted := counted[s.FullName()]; {
	case has:
	case isCounted:
		place = "#" + strconv.Itoa(at)
	case s.First == 0:
		place = "~"
	case s.Last < 0:
		place = fmt.Sprint(s.First, s.Last, s.Step)
	default:
		place = fmt.Sprint(s.First, s.Last-s.First, s.Step)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(fmt.Sprintf("the key specification of %s: %v", s.FullName(), err))
		}
		return n
	}
	words := strings.Fields(place)
	if words[0] == "?" || words[0] == "~" {
		k.begin, k.find, k.built = "unknown", "unknown", words[0] == "?"
		return k
	}
	if after, ok := strings.CutPrefix(words[0], "#"); ok {
		k.begin, k.find, k.at, k.span = "index", "keynum", number(after), [3]int{0, 1, 1}
		if len(words) > 1 {
			k.span[2] = number(words[1])
		}
		return k
	}
	k.begin, k.find, k.span = "index", "range", [3]int{0, 1, 0}
	if word, from, ok := strings.Cut(words[0], "@"); ok {
		k.begin, k.keyword, words[0] = "keyword", word, from
	}
	k.at = number(words[0])
	for i, w := range words[1:] {
		k.span[i] = number(w)
	}
	return k
}

// Flags of keys that depend on the arguments.
var (
	setOverwrites = keySpec{flags: []string{"OW", "update"}}
	fieldReads    = keySpec{flags: []string{"RO", "access"}}
	updates       = keySpec{flags: []string{"RW", "access", "update"}}
)

// useOfKey returns the specification of the i-th of the keys that AppendKeys has found in the arguments.
func (s *Spec) useOfKey(i int, args [][]byte) *keySpec {
	switch s.full {
	case "set":
		if !setReturnsOld(args) {
			return &setOverwrites
		}
		return &updates
	case "bitfield":
		if onlyGets(args) {
			return &fieldReads
		}
		return &updates
	case "migrate": // those after KEYS are like the first one
		i = 0
	}
	list := described()[s.ID].keys
	var last *keySpec
	for j := range list {
		if list[j].built {
			continue
		}
		last = &list[j]
		if i == 0 {
			break
		}
		i--
	}
	return last
}

// hasKeys reports whether arguments of the command are keys. Channels that are routed like keys are none.
func (s *Spec) hasKeys() bool {
	list := described()[s.ID].keys
	return len(list) > 0 && !list[0].has("not_key")
}

// writeKeySpecs describes where the keys are and what the command does with them.
func (s *Spec) writeKeySpecs(c *Ctx) {
	w := c.Out
	fields := func(name, kind string, values ...any) {
		w.BulkString(name)
		w.Map(2)
		w.BulkString("type")
		w.BulkString(kind)
		w.BulkString("spec")
		w.Map(len(values) / 2)
		for i := 0; i < len(values); i += 2 {
			w.BulkString(values[i].(string))
			switch v := values[i+1].(type) {
			case int:
				w.Int(int64(v))
			case string:
				w.BulkString(v)
			}
		}
	}
	list := described()[s.ID].keys
	w.Set(len(list))
	for _, k := range list {
		w.Map(3)
		w.BulkString("flags")
		writeWords(c, k.flags)
		switch k.begin {
		case "index":
			fields("begin_search", k.begin, "index", k.at)
		case "keyword":
			fields("begin_search", k.begin, "keyword", k.keyword, "startfrom", k.at)
		default:
			fields("begin_search", k.begin)
		}
		switch k.find {
		case "range":
			fields("find_keys", k.find, "lastkey", k.span[0], "keystep", k.span[1], "limit", k.span[2])
		case "keynum":
			fields("find_keys", k.find, "keynumidx", k.span[0], "firstkey", k.span[1], "keystep", k.span[2])
		default:
			fields("find_keys", k.find)
		}
	}
}
