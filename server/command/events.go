package command

import (
	"strings"

	"github.com/basaltdb/basalt/engine"
)

// EventClass is a set of classes of keyspace events, and of the ways to publish them.
type EventClass uint16

// The classes, with the letters that they have in notify-keyspace-events.
const (
	EventKeyspace EventClass = 1 << iota // K: published on __keyspace@<db>__:<key>
	EventKeyevent                        // E: published on __keyevent@<db>__:<event>
	EventGeneric                         // g
	EventString                          // $
	EventList                            // l
	EventSet                             // s
	EventHash                            // h
	EventZSet                            // z
	EventExpired                         // x
	EventEvicted                         // e
	EventStream                          // t
	EventModule                          // d: the types that are modules in Redis
	EventMiss                            // m: a key that was looked up does not exist
	EventNew                             // n: a key was created

	// EventAll is A: all classes but m and n.
	EventAll = EventGeneric | EventString | EventList | EventSet | EventHash | EventZSet | EventExpired |
		EventEvicted | EventStream | EventModule
)

const eventLetters = "KEg$lshzxetdmn"

// ParseEvents reads the text of notify-keyspace-events.
func ParseEvents(text string) (EventClass, bool) {
	var e EventClass
	for _, r := range text {
		if r == 'A' {
			e |= EventAll
			continue
		}
		i := strings.IndexRune(eventLetters, r)
		if i < 0 {
			return 0, false
		}
		e |= 1 << i
	}
	return e, true
}

// KeyEvent is a keyspace event of a key.
type KeyEvent struct {
	Class EventClass
	Name  string
	Key   []byte
	Other bool // the key is in the other namespace that the command has written to, see [Spec.OtherNamespace]
}

// Change is a command that has written, with the data for the events of its keys.
type Change struct {
	Spec  *Spec
	Args  [][]byte
	Keys  [][]byte // the keys that the command could write
	Was   []bool   // which of the keys existed before
	Is    []bool   // which of the keys exist now
	Other []byte   // the key written in another namespace, nil = none
	Extra []KeyEvent
	emits []KeyEvent

	fresh, gone map[string]struct{} // created and deleted keys whose events are not emitted yet
}

// emit adds an event for a key.
func (c *Change) emit(class EventClass, name string, key []byte) {
	c.emitNew(key)
	c.emits = append(c.emits, KeyEvent{Class: class, Name: name, Key: key})
}

// emitNew emits the event new of a key, if the key was created and the event was not emitted yet.
func (c *Change) emitNew(key []byte) {
	if _, ok := c.fresh[string(key)]; ok {
		delete(c.fresh, string(key))
		c.emits = append(c.emits, KeyEvent{Class: EventNew, Name: "new", Key: key})
	}
}

// emitGone emits the event del of a key, if the key was deleted and the event was not emitted yet.
func (c *Change) emitGone(key []byte) {
	if _, ok := c.gone[string(key)]; ok {
		delete(c.gone, string(key))
		c.emit(EventGeneric, "del", key)
	}
}

// emitOther adds an event for the key in the other namespace.
func (c *Change) emitOther(class EventClass, name string) {
	c.emits = append(c.emits, KeyEvent{Class: class, Name: name, Key: c.Other, Other: true})
}

// Events returns the events in Redis's order: a key was created, what the command has done to the key, that it was
// emptied.
func (c *Change) Events() []KeyEvent {
	c.emits = c.emits[:0]
	c.fresh, c.gone = nil, nil
	for i, k := range c.Keys {
		switch {
		case c.Was[i] == c.Is[i]:
		case c.Is[i]:
			if c.fresh == nil {
				c.fresh = map[string]struct{}{}
			}
			c.fresh[string(k)] = struct{}{}
		case !renames[c.Spec.Name]:
			if c.gone == nil {
				c.gone = map[string]struct{}{}
			}
			c.gone[string(k)] = struct{}{}
		}
	}
	if c.Other != nil { // never replaces a key, see MOVE and COPY
		c.emitOther(EventNew, "new")
	}
	if rule := ruleOf(c.Spec); rule != nil {
		rule(c)
	}
	for _, e := range c.Extra {
		c.emit(e.Class, e.Name, e.Key)
	}
	for _, k := range c.Keys {
		c.emitNew(k) // a created key without an event of its own
		c.emitGone(k)
	}
	return c.emits
}

// looksUp are the writing commands that look up their key like a reader: a missing key counts as a miss.
var looksUp = map[string]bool{"getdel": true, "getex": true, "getset": true, "xack": true, "xclaim": true,
	"xautoclaim": true, "pfmerge": true}

// silent are the commands that read without counting missing keys.
var silent = map[string]bool{"object": true, "memory": true, "debug": true}

// AppendLookups appends the keys for which Redis would emit keymiss if they do not exist.
func AppendLookups(dst [][]byte, s *Spec, args [][]byte, keys []KeyRef) [][]byte {
	if s.Parent != nil && silent[s.Parent.Name] {
		return dst
	}
	both := looksUp[s.Name]
	switch s.Name {
	case "set":
		both = setReturnsOld(args)
	case "bitfield":
		both = onlyGets(args)
	}
	for _, k := range keys {
		if both || !k.Write {
			dst = append(dst, args[k.Arg])
		}
	}
	return dst
}

// renames are the commands that remove a key without deleting it.
var renames = map[string]bool{"rename": true, "renamenx": true, "move": true, "movex": true}

type eventRule func(*Change)

// first is the rule of commands that change one key, their first key, if the key still exists or the command has
// emptied it.
func first(class EventClass, name string) eventRule {
	return func(c *Change) {
		if len(c.Keys) > 0 && (c.Is[0] || c.Was[0]) {
			c.emit(class, name, c.Keys[0])
		}
	}
}

// stored is the rule of commands that store a result: with an empty result the only event is the deletion.
func stored(class EventClass, name string) eventRule {
	return func(c *Change) {
		if len(c.Keys) > 0 && c.Is[0] {
			c.emit(class, name, c.Keys[0])
		}
	}
}

// popped is the rule of commands that pop from the first non-empty key.
func popped(class EventClass, name string) eventRule {
	return func(c *Change) {
		for i, k := range c.Keys {
			if c.Was[i] {
				c.emit(class, name, k)
				return
			}
		}
	}
}

// poppedSide is the rule of LMPOP and the like, whose keys begin at an argument: the word behind the keys chooses
// between two names. A key may look like that word.
func poppedSide(class EventClass, keys int, word, with, without string) eventRule {
	return func(c *Change) {
		name := without
		if EqualFold(c.Args[keys+len(c.Keys)], word) {
			name = with
		}
		popped(class, name)(c)
	}
}

// zaddEvents: INCR is an option only before the first score; behind it INCR is a member.
func zaddEvents(c *Change) {
	name := "zadd"
	for _, a := range c.Args[2:] {
		if _, score := ParseFloat(a); score {
			break
		}
		if EqualFold(a, "INCR") {
			name = "zincr"
		}
	}
	first(EventZSet, name)(c)
}

var eventRules = map[string]eventRule{
	"set": setEvents, "setex": setEvents, "psetex": setEvents, "setnx": setEvents, "getset": setEvents, "cas": setEvents,
	"mset": eachSet, "msetnx": eachSet, "msetex": msetExEvents,
	"getex": func(c *Change) {
		if c.Is[0] {
			name := "expire"
			if len(c.Args) == 3 { // PERSIST, the only option without a value
				name = "persist"
			}
			c.emit(EventGeneric, name, c.Keys[0])
		}
	},
	"append": first(EventString, "append"), "setrange": first(EventString, "setrange"),
	"incr": first(EventString, "incrby"), "decr": first(EventString, "incrby"), "incrby": first(EventString,
		"incrby"), "decrby": first(EventString, "incrby"),
	"incrbyfloat": first(EventString, "incrbyfloat"),
	"setbit":      first(EventString, "setbit"), "bitfield": first(EventString,
		"setbit"), "bitop": stored(EventString, "set"),
	"pfadd": first(EventString, "pfadd"), "pfmerge": first(EventString, "pfadd"),

	"expire": expireEvents, "pexpire": expireEvents, "expireat": expireEvents, "pexpireat": expireEvents,
	"persist": first(EventGeneric, "persist"),
	"rename":  renameEvents, "renamenx": renameEvents,
	"copy":    copyEvents,
	"restore": first(EventGeneric, "restore"), "restore-asking": first(EventGeneric, "restore"),
	"move": moveDBEvents, "movex": moveDBEvents,
	"sort": stored(EventList, "sortstore"),

	"hset": first(EventHash, "hset"), "hmset": first(EventHash, "hset"), "hsetnx": first(EventHash, "hset"),
	"hincrby": first(EventHash, "hincrby"), "hincrbyfloat": first(EventHash, "hincrbyfloat"),
	// HDEL and the commands for field expiry add their events themselves: they also write when they only delete
	// expired fields.
	"hsetex": hsetexEvents,
	"hsetexpire": func(c *Change) {
		c.emit(EventHash, "hset", c.Keys[0])
		c.emit(EventGeneric, "expire", c.Keys[0])
	},

	"lpush": first(EventList, "lpush"), "rpush": first(EventList, "rpush"), "lpushx": first(EventList,
		"lpush"), "rpushx": first(EventList, "rpush"),
	"lpop": first(EventList, "lpop"), "rpop": first(EventList, "rpop"), "lset": first(EventList,
		"lset"), "linsert": first(EventList, "linsert"),
	"lrem": first(EventList, "lrem"), "ltrim": first(EventList, "ltrim"),
	"lmove": moveEvents, "blmove": moveEvents, "lmovem": moveEvents, "blmovem": moveEvents,
	"rpoplpush": moveEvents, "brpoplpush": moveEvents,
	"lmpop":  poppedSide(EventList, 2, "LEFT", "lpop", "rpop"),
	"blmpop": poppedSide(EventList, 3, "LEFT", "lpop", "rpop"),
	"blpop":  popped(EventList, "lpop"), "brpop": popped(EventList, "rpop"),

	"sadd": first(EventSet, "sadd"), "srem": first(EventSet, "srem"), "spop": first(EventSet, "spop"),
	"smove": func(c *Change) {
		c.emit(EventSet, "srem", c.Args[1])
		c.emitGone(c.Args[1])
		// SMOVE adds sadd itself, unless the other set has the member already.
	},
	"sinterstore": stored(EventSet, "sinterstore"), "sunionstore": stored(EventSet,
		"sunionstore"), "sdiffstore": stored(EventSet, "sdiffstore"),

	"zadd": zaddEvents, "zincrby": first(EventZSet, "zincr"),
	"zrem": first(EventZSet, "zrem"), "zremrangebyrank": first(EventZSet,
		"zremrangebyrank"), "zremrangebyscore": first(EventZSet, "zremrangebyscore"),
	"zremrangebylex": first(EventZSet, "zremrangebylex"),
	"zpopmin":        first(EventZSet, "zpopmin"), "zpopmax": first(EventZSet, "zpopmax"),
	"bzpopmin": popped(EventZSet, "zpopmin"), "bzpopmax": popped(EventZSet, "zpopmax"),
	"zmpop":       poppedSide(EventZSet, 2, "MIN", "zpopmin", "zpopmax"),
	"bzmpop":      poppedSide(EventZSet, 3, "MIN", "zpopmin", "zpopmax"),
	"zunionstore": stored(EventZSet, "zunionstore"), "zinterstore": stored(EventZSet,
		"zinterstore"), "zdiffstore": stored(EventZSet, "zdiffstore"), "zrangestore": stored(EventZSet, "zrangestore"),
	"geoadd": first(EventZSet, "zadd"), "geosearchstore": stored(EventZSet, "geosearchstore"),
	"georadius": storedLast(EventZSet, "georadiusstore"), "georadiusbymember": storedLast(EventZSet, "georadiusstore"),

	// XADD adds its events itself: it also writes when it has found a duplicate.
	"xdel": first(EventStream, "xdel"), "xtrim": first(EventStream, "xtrim"), "xsetid": first(EventStream, "xsetid"),
	"xgroup|create": first(EventStream, "xgroup-create"), "xgroup|setid": first(EventStream,
		"xgroup-setid"), "xgroup|destroy": first(EventStream, "xgroup-destroy"),
	"xgroup|createconsumer": first(EventStream, "xgroup-createconsumer"), "xgroup|delconsumer": first(EventStream,
		"xgroup-delconsumer"),
}

// ruleOf returns the rule for the command's events, nil = no events.
func ruleOf(s *Spec) eventRule {
	if rule, ok := eventRules[s.FullName()]; ok {
		return rule
	}
	if s.Flags&Write != 0 && (strings.Contains(s.Name, ".") || s.Name == "siadd" || s.Name == "sirem") {
		return moduleEvents
	}
	return nil
}

// moduleEvents is the rule of the types that are modules in Redis: an event with the name of the command. It comes
// after those of the time series that are aggregated, as in RedisTimeSeries.
func moduleEvents(c *Change) {
	for _, e := range c.Extra {
		c.emit(e.Class, e.Name, e.Key)
	}
	c.Extra = c.Extra[:0]
	name := c.Spec.Name
	switch name {
	case "json.forget": // an alias
		name = "json.del"
	case "ts.madd":
		name = "ts.add"
	case "ts.createrule", "ts.deleterule":
		c.emit(EventModule, name+":src", c.Keys[0])
		c.emit(EventModule, name+":dest", c.Keys[1])
		return
	}
	for i, k := range c.Keys {
		if c.Is[i] || c.Was[i] {
			c.emit(EventModule, name, k)
		}
	}
}

func storedLast(class EventClass, name string) eventRule {
	return func(c *Change) {
		if n := len(c.Keys); n > 0 && c.Is[n-1] {
			c.emit(class, name, c.Keys[n-1])
		}
	}
}

func setEvents(c *Change) {
	n := c.Spec.Name
	c.emitSet(0, n == "setex" || n == "psetex" || n == "set" && givesExpiry(options{args: c.Args[3:]}))
}

// emitSet adds the events of a key that was set to a value, with an expiry or without.
func (c *Change) emitSet(i int, expires bool) {
	key := c.Keys[i]
	c.emit(EventString, "set", key)
	if expires {
		c.emit(EventGeneric, "expire", key)
	}
	if !c.Is[i] { // its expiry is in the past
		delete(c.gone, string(key))
		c.emit(EventExpired, "expired", key)
	}
}

// givesExpiry reports whether EX, PX, EXAT or PXAT is among the options of a SET that has succeeded.
func givesExpiry(o options) bool {
	var e expiryOption
	var cond condition
	for o.more() {
		switch {
		case e.take(&o):
			return true
		case !cond.take(&o):
			o.next() // another option
		}
	}
	return false
}

func msetExEvents(c *Change) {
	_, o, err := msetExPairs(c.Args)
	if err != nil {
		return
	}
	expires := givesExpiry(o)
	for i := range c.Keys {
		c.emitSet(i, expires)
	}
}

// hsetexEvents: fields whose expiry is in the past are deleted at once, so a missing key stays missing.
func hsetexEvents(c *Change) {
	for _, e := range c.Extra {
		c.emit(e.Class, e.Name, e.Key)
	}
	c.Extra = c.Extra[:0]
	if !c.Is[0] {
		delete(c.gone, string(c.Keys[0]))
		c.emit(EventGeneric, "del", c.Keys[0])
	}
}

func eachSet(c *Change) {
	for _, k := range c.Keys {
		c.emit(EventString, "set", k)
	}
}

func expireEvents(c *Change) {
	if c.Is[0] {
		c.emit(EventGeneric, "expire", c.Keys[0])
	}
}

// emitReplaced emits the event new of a key also if the key has replaced another one: RENAME and COPY delete the old
// key first.
func (c *Change) emitReplaced(key []byte) {
	delete(c.fresh, string(key))
	c.emit(EventNew, "new", key)
}

func renameEvents(c *Change) {
	c.emitReplaced(c.Args[2])
	c.emit(EventGeneric, "rename_from", c.Args[1])
	c.emit(EventGeneric, "rename_to", c.Args[2])
}

func copyEvents(c *Change) {
	if c.Other != nil {
		c.emitOther(EventGeneric, "copy_to")
	} else {
		c.emitReplaced(c.Args[2])
		c.emit(EventGeneric, "copy_to", c.Args[2])
	}
}

func moveDBEvents(c *Change) {
	c.emit(EventGeneric, "move_from", c.Args[1])
	c.emitOther(EventGeneric, "move_to")
}

func moveEvents(c *Change) {
	if !c.Was[0] {
		return
	}
	from, to := "rpop", "lpush"
	if strings.Contains(c.Spec.Name, "lmove") {
		if EqualFold(c.Args[3], "LEFT") {
			from = "lpop"
		}
		if EqualFold(c.Args[4], "RIGHT") {
			to = "rpush"
		}
	}
	c.emit(EventList, to, c.Args[2])
	c.emit(EventList, from, c.Args[1])
}

func Exists(tx *engine.Tx, keys [][]byte, dst []bool) []bool {
	for _, k := range keys {
		rec, err := tx.LoadHead(k)
		dst = append(dst, err == nil && rec.Exists)
	}
	return dst
}
