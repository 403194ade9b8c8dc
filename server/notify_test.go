package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
)

// The keyspace events of commands, in order, each as event:key.
func TestKeyspaceEvents(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "AEn")
	s, c := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__key*")
	for _, tt := range []struct{ commands, want string }{
		{"SET s v", "new:s set:s"},
		{"SET s v EX 100", "set:s expire:s"},
		{"SET s w XX GET", "set:s"},
		{"SET s w NX", ""},
		{"SETEX s 100 v", "set:s expire:s"},
		{"GETEX s PERSIST", "persist:s"},
		{"GETEX s EX 100", "expire:s"},
		{"GETEX s EXAT 9999999999", "expire:s"},
		{"GETEX s EXAT 9999999999", "expire:s"},
		{"APPEND s x", "append:s"},
		{"SETRANGE s 1 x", "setrange:s"},
		{"GETDEL s", "del:s"},
		{"SET past v;SET past v EXAT 1", "new:past set:past set:past expire:past expired:past"},
		{"MSET a 1 b 2", "new:a set:a new:b set:b"},
		{"INCR a", "incrby:a"},
		{"DECRBY a 2", "incrby:a"},
		{"INCRBYFLOAT a 1.5", "incrbyfloat:a"},
		{"EXPIRE a 100", "expire:a"},
		{"PERSIST a", "persist:a"},
		{"PERSIST a", ""},
		{"EXPIRE a -1", "del:a"},
		{"RENAME b c", "new:c rename_from:b rename_to:c"},
		{"COPY c d", "new:d copy_to:d"},
		{"RENAME c d", "new:d rename_from:c rename_to:d"},
		{"SET c v", "new:c set:c"},
		{"COPY c d REPLACE", "new:d copy_to:d"},
		{"DEL c d c missing", "del:c del:d"},
		{"HSET h f v", "new:h hset:h"},
		{"HSET h f v", "hset:h"},
		{"HINCRBY h n 1", "hincrby:h"},
		{"HEXPIRE h 100 FIELDS 1 f", "hexpire:h"},
		{"HEXPIRE h 100 FIELDS 1 missing", ""},
		{"HPERSIST h FIELDS 1 f", "hpersist:h"},
		{"HSETEX h EX 100 FIELDS 1 f w", "hset:h hexpire:h"},
		{"HGETEX h PERSIST FIELDS 1 f", "hpersist:h"},
		{"HGETEX h PX 100000 FIELDS 1 f", "hexpire:h"},
		{"HGETEX h PXAT 9999999999123 FIELDS 1 f", "hexpire:h"},
		{"HGETEX h PXAT 9999999999123 FIELDS 2 missing f", "hexpire:h"}, // the same expiry is an event, too
		{"HEXPIREAT h 9999999999 FIELDS 1 f;HEXPIREAT h 9999999999 FIELDS 1 f", "hexpire:h hexpire:h"},
		{"HGETEX h PX 100000 FIELDS 1 missing;HGETEX h FIELDS 1 f", ""},
		{"HSETEX h KEEPTTL FIELDS 1 f w", "hset:h"},
		{"HSETEX h FXX FIELDS 1 missing w;HSETEX h FNX FIELDS 1 f w", ""},
		{"HSETEX h PX 0 FIELDS 1 missing w", "hset:h hdel:h"},
		{"HSETEX none EXAT 1 FIELDS 2 a v b w", "hset:none hdel:none del:none"},
		{"HSETEX none FIELDS 1 a v;HSETEX none EXAT 1 FIELDS 2 a v b w", "new:none hset:none hset:none hdel:none del:none"},
		{"HSETEX none FIELDS 1 a v;HGETEX none EXAT 1 FIELDS 2 a b", "new:none hset:none hdel:none del:none"},
		{"HSETEX none FIELDS 1 a v;HGETDEL none FIELDS 2 a b", "new:none hset:none hdel:none del:none"},
		{"HEXPIREAT h 1 FIELDS 1 n", "hdel:h"},
		{"HSET h n 1", "hset:h"},
		{"HDEL h f n", "hdel:h del:h"},
		{"SET if EX IFNE v EX 100;SET if EXAT IFEQ EX;SET if v IFEQ EX;DELEX if IFEQ v;DELEX if IFNE EXAT",
			"new:if set:if expire:if set:if"},
		{"DELEX if IFEQ EXAT", "del:if"},
		{"INCREX ix BYINT 2;INCREX ix BYFLOAT 0.5;INCREX ix BYFLOAT 9 UBOUND 3 EX 100",
			"new:ix incrby:ix incrbyfloat:ix"},
		{"INCREX ix BYFLOAT 0.5 EX 100;INCREX ix EX 200 ENX;INCREX ix PERSIST;INCREX ix PERSIST",
			"incrbyfloat:ix expire:ix incrby:ix incrby:ix persist:ix incrby:ix"},
		{"INCREX ix EXAT 1;INCREX ix EXAT 1", "del:ix"},
		{"SET if v;DELIFEQ if w;DELIFEQ if v", "new:if set:if del:if"},
		{"MSETEX 2 me:1 a me:2 b EX 100;MSETEX 2 me:1 a me:3 b NX",
			"new:me:1 set:me:1 expire:me:1 new:me:2 set:me:2 expire:me:2"},
		{"MSETEX 1 me:1 EX", "set:me:1"},
		{"HSETEXPIRE he 100 f v", "new:he hset:he expire:he"},
		{"RPUSH l a b c", "new:l rpush:l"},
		{"LPOP l", "lpop:l"},
		{"LSET l 0 b", "lset:l"},
		{"LTRIM l 0 -1", "ltrim:l"},
		{"LTRIM missing 0 -1", ""},
		{"LMOVE l m LEFT RIGHT", "new:m rpush:m lpop:l"},
		{"LMOVE missing m LEFT RIGHT", ""},
		{"RPOPLPUSH l m", "lpush:m rpop:l del:l"},
		{"RPUSH one a", "new:one rpush:one"},
		{"LMOVE one one LEFT RIGHT", "rpush:one lpop:one"},
		{"LMOVEM one one LEFT RIGHT EXACTLY 1 OBO;LMOVEM one two LEFT LEFT EXACTLY 2 OBO", "rpush:one lpop:one"},
		{"RPUSH one b c;LMOVEM one two RIGHT LEFT COUNT 2 BULK;BLMOVEM one two LEFT RIGHT 0 COUNT 9 OBO",
			"rpush:one new:two lpush:two rpop:one rpush:two lpop:one del:one"},
		{"LMOVEM two two LEFT LEFT COUNT 2 BULK;LMOVEM two two RIGHT RIGHT COUNT 9 OBO",
			"lpush:two lpop:two rpush:two rpop:two"},
		{"LMPOP 2 l m LEFT COUNT 9", "lpop:m del:m"},
		{"SADD s a b", "new:s sadd:s"},
		{"SADD s a", ""},
		{"SMOVE s t a", "srem:s new:t sadd:t"},
		{"SMOVE s t b", "srem:s del:s sadd:t"},
		{"SADD s a c;SMOVE s t a;SREM s c", "new:s sadd:s srem:s srem:s del:s"}, // t has a already
		{"SPOP t 1", "spop:t"},
		{"SUNIONSTORE u t", "new:u sunionstore:u"},
		{"SINTERSTORE u t missing", "del:u"},
		{"ZADD z 1 a 2 b", "new:z zadd:z"},
		{"ZADD z INCR 1 a", "zincr:z"},
		{"ZINCRBY z 1 a", "zincr:z"},
		{"ZPOPMAX z 5", "zpopmax:z del:z"},
		{"ZADD zi 1 INCR;ZADD zi CH INCR 1 INCR;DEL zi", "new:zi zadd:zi zincr:zi del:zi"},
		{"RPUSH left a b;LMPOP 2 none left RIGHT;BLMPOP 1 2 none left RIGHT",
			"new:left rpush:left rpop:left rpop:left del:left"},
		{"ZADD min 1 a 2 b;ZMPOP 2 none min MAX;BZMPOP 1 2 none min MAX",
			"new:min zadd:min zpopmax:min zpopmax:min del:min"},
		{"GEOADD g 1 1 a", "new:g zadd:g"},
		{"XADD x * f v", "new:x xadd:x"},
		{"XGROUP CREATE x g 0", "xgroup-create:x"},
		{"XADD x MAXLEN 5 * f v", "xadd:x"},
		{"XADD x MAXLEN 1 9-9 f v", ""},
		{"XADD x MAXLEN 1 * f v", "xadd:x xtrim:x"},
		{"XADD x IDMP p i * f v;XADD x IDMP p i MAXLEN 0 * f v;XCFGSET x IDMP-MAXSIZE 5", "xadd:x"},
		{"XADD x NOMKSTREAM * f v;XADD none NOMKSTREAM * f v", "xadd:x"},
		{"XREADGROUP GROUP g c STREAMS x >", "xgroup-createconsumer:x"},
		{"XREADGROUP GROUP g c STREAMS x >", ""},
		{"XCLAIM x g d 0 1-1", "xgroup-createconsumer:x"},
		{"XAUTOCLAIM x g e 0 0", "xgroup-createconsumer:x"},
		{"XGROUP CREATECONSUMER x g f", "xgroup-createconsumer:x"},
		{"XTRIM x MAXLEN 0", "xtrim:x"},
		{"SETBIT bits 1 1", "new:bits setbit:bits"},
		{"PFADD hll a", "new:hll pfadd:hll"},
		{"BF.ADD bf a", "new:bf bf.add:bf"},
		{"BF.ADD bf a", ""},
		{"JSON.SET j $ {\"a\":1,\"b\":[2],\"c\":true}", "new:j json.set:j"},
		{"JSON.SET j $.a.b 1", ""},
		{"JSON.NUMINCRBY j $.a 1", "json.numincrby:j"},
		{"JSON.NUMINCRBY j $.b 1", ""},
		{"JSON.TOGGLE j .c", "json.toggle:j"},
		{"JSON.ARRPOP j $.b", "json.arrpop:j"},
		{"JSON.MSET j $.a 1 k $ 2", "json.mset:j new:k json.mset:k"},
		{"JSON.FORGET j $.a", "json.del:j"},
		{"JSON.DEL j", "json.del:j del:j"},
		{"TDIGEST.CREATE td", "new:td tdigest.create:td"},
		{"TDIGEST.ADD td 1", "tdigest.add:td"},
		{"TS.CREATE ta;TS.ADD tb 1 1", "new:ta ts.create:ta new:tb ts.add:tb"},
		{"TS.CREATERULE ta tb AGGREGATION sum 10", "ts.createrule:src:ta ts.createrule:dest:tb"},
		{"TS.DELETERULE ta tb;TS.CREATERULE ta tb AGGREGATION sum 10", "ts.deleterule:src:ta ts.deleterule:dest:tb " +
			"ts.createrule:src:ta ts.createrule:dest:tb"},
		{"TS.MADD ta 1 1 tb 2 1", "ts.add:ta ts.add:tb"},
		{"TS.ADD ta 11 1;TS.ADD ta 12 1", "ts.add:dest:tb ts.add:ta ts.add:ta"},
		{"TS.MADD ta 21 1 ta 31 1", "ts.add:dest:tb ts.add:ta ts.add:ta"},
		{"TS.INCRBY ta 1 TIMESTAMP 41", "ts.add:dest:tb ts.incrby:ta"},
		{"TS.DEL ta 11 50", "ts.del:ta"},
		{"TS.INCRBY ta 1 TIMESTAMP 5;TS.DEL ta - +", "ts.incrby:ta ts.del:ta"},
		{"TDIGEST.MERGE te 1 td", "new:te tdigest.merge:te"},
		{"SIADD si 1 2", "new:si siadd:si"},
		{"SIADD si 1", ""},
		{"SIREM si 1 2", "sirem:si del:si"},
		{"LPUSH s x", "new:s lpush:s"},
		{"SET s x GET", ""},
		{"MULTI;SET e 1;DEL e;EXEC", "new:e set:e del:e"},
		{"GET missing", ""},
	} {
		c.DoAll(tt.commands)
		c.Want("PUBLISH __keyend x", ":1\r\n")
		var got []string
		for {
			f := strings.Split(s.Reply(), "\r\n")
			channel, key := f[6], f[8]
			if channel == "__keyend" {
				break
			}
			event, ok := strings.CutPrefix(channel, "__keyevent@0__:")
			if !ok {
				t.Fatalf("%s: a message on %s", tt.commands, channel)
			}
			got = append(got, event+":"+key)
		}
		if want := strings.Fields(tt.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.commands, got, want)
		}
	}
}

// A served blocked client causes the events of its pop, a failed commit causes no event, and commands that read missing
// keys cause keymiss.
func TestEventsOfOthers(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "KEAm")
	s, c, w := h.Dial(t), h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__keyevent*")
	next := func(want string) {
		t.Helper()
		f := strings.Split(s.Reply(), "\r\n")
		if got := strings.TrimPrefix(f[6], "__keyevent@0__:") + ":" + f[8]; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	w.Send(servertest.Encode("BLPOP", "k", "0"))
	h.BlockedClients(t, 1)
	c.Do("RPUSH", "k", "x")
	next("rpush:k")
	next("lpop:k")
	next("del:k")
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
	c.Do("SET", "k", "lost")
	h.DB.InjectWriteError(nil)
	c.Do("GET", "nosuch")
	next("keymiss:nosuch")
	c.Do("HGET", "nohash", "f")
	next("keymiss:nohash")
	c.Do("SET", "k", "v")
	next("set:k")
	for _, tt := range []struct{ commands, want string }{
		{"GETDEL m", "m"},
		{"GETEX m", "m"},
		{"XACK m g 1-1", "m"},
		{"BITOP NOT d m", "m"},
		{"SUNIONSTORE d m n", "m n"},
		{"COPY m d", "m"},
		{"OBJECT ENCODING m", ""},
		{"INCR m;DEL m", ""},
		{"EVAL return{redis.call('get','m')} 1 m", "m"},
		{"MULTI;GET m;EXEC", "m"},
		{"EVAL_RO return(redis.call('get','m')) 1 m", "m"},
		{"EVAL_RO return(1) 1 m", ""},
	} {
		c.DoAll(tt.commands)
		if strings.HasPrefix(tt.commands, "INCR") {
			next("incrby:m")
			next("del:m")
		}
		for _, key := range strings.Fields(tt.want) {
			next("keymiss:" + key)
		}
	}
	// keymiss of a read between two writes of a pipeline.
	c.Send(servertest.Encode("SET", "k", "v") + servertest.Encode("GET", "m") + servertest.Encode("SET", "k", "w"))
	c.Reply()
	c.Reply()
	c.Reply()
	next("set:k")
	next("keymiss:m")
	next("set:k")
	s2 := h.Dial(t)
	s2.Do("SUBSCRIBE", "__keyspace@0__:k")
	c.Do("DEL", "k")
	next("del:k")
	if got, want := s2.Reply(), servertest.Bulk("message", "__keyspace@0__:k", "del"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The events of expired keys are published although no command accesses the keys, whether or not the keys existed when
// notify-keyspace-events was set. A key whose expiry was removed has no event.
func TestExpiredEvents(t *testing.T) {
	const ok, one = "+OK\r\n", ":1\r\n"
	var s, c *servertest.Client
	servertest.InTime(t, 60*time.Millisecond, func(life time.Duration) error {
		h := servertest.Start(t)
		s, c = h.Dial(t), h.Dial(t)
		s.Do("PSUBSCRIBE", "__keyevent*")
		px := fmt.Sprint(life.Milliseconds())
		return c.Replies("SET before v PX "+px, ok, "CONFIG SET notify-keyspace-events Ex", ok, "SET kept v PX "+px,
			ok, "PERSIST kept", one,
			"HSET after f v", one, "PEXPIRE after "+px, one)
	})
	got := map[string]bool{}
	for range 2 {
		f := strings.Split(s.Reply(), "\r\n")
		if f[6] != "__keyevent@0__:expired" {
			t.Errorf("a message on %s", f[6])
		}
		got[f[8]] = true
	}
	if !got["before"] || !got["after"] || len(got) != 2 {
		t.Errorf("expired: %v", got)
	}
	c.Want("GET kept", "$1\r\nv\r\n")
	c.Want("DBSIZE", ":1\r\n")
	c.Want("CONFIG SET notify-keyspace-events y",
		"-ERR "+fmt.Sprintf("CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - %s",
			"Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")+"\r\n")
	c.Want("CONFIG GET notify-keyspace-events", servertest.Bulk("notify-keyspace-events", "xE"))
}

// events reads the messages of events up to the event until, and returns each as event:key. It ignores the events of
// the keys givenUp.
func events(c *servertest.Client, until string, givenUp ...string) (got []string) {
	c.T.Helper()
	for len(got) == 0 || got[len(got)-1] != until {
		f := strings.Split(c.Reply(), "\r\n")
		if !slices.Contains(givenUp, f[8]) {
			got = append(got, strings.TrimPrefix(f[6], "__keyevent@0__:")+":"+f[8])
		}
	}
	return got
}

// The events of expired hash fields are published although no command accesses the hash. With its last field the hash
// is deleted.
func TestFieldExpiredEvents(t *testing.T) {
	const ok, one = "+OK\r\n", ":1\r\n"
	var h *servertest.Harness
	var s, c *servertest.Client
	servertest.InTime(t, 40*time.Millisecond, func(life time.Duration) error {
		h = servertest.Start(t)
		s, c = h.Dial(t), h.Dial(t)
		s.Do("PSUBSCRIBE", "__keyevent*")
		c.Do("HSET", "before", "a", "1", "b", "2")
		c.Do("HPEXPIRE", "before", fmt.Sprint(life.Milliseconds()), "FIELDS", "1", "a")
		return c.Replies("CONFIG SET notify-keyspace-events Eghx", ok)
	})
	var givenUp []string // keys that have expired too soon
	check := func(want ...string) {
		t.Helper()
		if got := events(s, want[len(want)-1], givenUp...); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	}
	check("hexpired:before")
	c.Want("HLEN before", ":1\r\n")

	// Fields expire one after the other, and the key with the last field. The event of the first field must come before
	// the second field expires, because otherwise both may share one event.
	var key string
	servertest.InTime(t, 90*time.Millisecond, func(life time.Duration) error {
		givenUp = append(givenUp, key)
		key = fmt.Sprint("h", len(givenUp))
		c.Do("MULTI")
		c.Do("HSET", key, "a", "1", "b", "2")
		c.Do("HPEXPIRE", key, fmt.Sprint(life.Milliseconds()/3), "FIELDS", "1", "a")
		c.Do("HPEXPIRE", key, fmt.Sprint(life.Milliseconds()), "FIELDS", "1", "b")
		c.Do("EXEC")
		want := []string{"hset:" + key, "hexpire:" + key, "hexpire:" + key, "hexpired:" + key}
		if got := events(s, "hexpired:"+key, givenUp...); !slices.Equal(got, want) {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
	check("hexpired:"+key, "del:"+key)
	c.Want("EXISTS "+key, ":0\r\n")

	// All fields at once.
	c.Do("HSET", "all", "a", "1", "b", "2")
	c.Do("HPEXPIRE", "all", "20", "FIELDS", "2", "a", "b")
	check("hset:all", "hexpire:all", "hexpired:all", "del:all")

	// The record's bound of the expiries is that of a, which is later than the expiry of b.
	c.Do("HSET", "bound", "keep", "1", "a", "1", "b", "2")
	c.Do("HPEXPIRE", "bound", "100000", "FIELDS", "1", "a")
	c.Do("HPEXPIRE", "bound", "20", "FIELDS", "1", "b")
	check("hset:bound", "hexpire:bound", "hexpire:bound", "hexpired:bound")
	c.Want("HGET bound a", "$1\r\n1\r\n")

	// The key expires before its field; or the expiry of a field is removed.
	c.Do("HSET", "key", "a", "1")
	c.Do("HPEXPIRE", "key", "100000", "FIELDS", "1", "a")
	c.Do("PEXPIRE", "key", "20")
	check("hset:key", "hexpire:key", "expire:key", "expired:key")
	key = ""
	servertest.InTime(t, 20*time.Millisecond, func(life time.Duration) error {
		givenUp = append(givenUp, key)
		key = fmt.Sprint("back", len(givenUp))
		return c.Replies("HSET "+key+" a 1 b 1", ":2\r\n", fmt.Sprint("HPEXPIRE ", key, " ", life.Milliseconds(),
			" FIELDS 1 a"), "*1\r\n"+one,
			"HPERSIST "+key+" FIELDS 1 a", "*1\r\n"+one, fmt.Sprint("HPEXPIRE ", key, " ", life.Milliseconds(),
				" FIELDS 1 b"), "*1\r\n"+one)
	})
	check("hset:"+key, "hexpire:"+key, "hpersist:"+key, "hexpire:"+key, "hexpired:"+key)
	c.Want("HLEN "+key, ":1\r\n")

	// Only events of the configured classes are published.
	c.Want("CONFIG SET notify-keyspace-events Ex", "+OK\r\n")
	c.Do("HSET", "silent", "a", "1")
	c.Do("HPEXPIRE", "silent", "10", "FIELDS", "1", "a")
	c.Do("SET", "end", "v", "PX", "60")
	check("expired:end")
}

// If a command replaces an expired key or field before the sweep has found it, the command publishes the events of the
// expiry once, before its own events. Expired keys and fields that are not replaced are left to the sweep.
func TestReplacedAfterExpiry(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "EA")
	s, c := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__keyevent*")
	c.Do("SET", "probe", "v", "PX", "1")
	events(s, "expired:probe") // the sweep has visited all keys
	h.DB.OnExpiry(nil)         // the sweep does not learn of later expiries
	c.Do("SET", "src", "v")
	c.Do("HSET", "live", "f", "v")
	for _, tt := range []struct{ end, commands, want string }{
		{"fields", "SET h v", "hexpired:h del:h set:h"},
		{"fields", "HSET h g w", "hexpired:h del:h hset:h"},
		{"fields", "RENAME src h", "hexpired:h del:h rename_from:src rename_to:h"},
		{"fields", "COPY live h", "hexpired:h del:h copy_to:h"},
		{"fields", "SADD h m", "hexpired:h del:h sadd:h"},
		{"fields", "SUNIONSTORE h h live2", ""},
		{"fields", "DEL h", ""},
		{"fields", "HDEL h f", ""},
		{"fields", "SET h v XX", ""},
		{"fields", "HGET h f", ""},
		{"fields", "MULTI;DEL h;HSET h g w;SET h v;EXEC", "hexpired:h del:h hset:h set:h"},
		{"fields", "EVAL return(redis.call('set',KEYS[1],'v')) 1 h", "hexpired:h del:h set:h"},
		{"one field", "HDEL h f", "hexpired:h"},
		{"one field", "HPERSIST h FIELDS 1 f", "hexpired:h"},
		{"one field", "HEXPIRE h 100 FIELDS 1 f", "hexpired:h"},
		{"one field", "HGETEX h EX 100 FIELDS 1 f", "hexpired:h"},
		{"one field", "HGETDEL h FIELDS 1 f", "hexpired:h"},
		{"one field", "HSETEX h FXX FIELDS 1 f w", ""},
		{"key", "SET h v", "expired:h set:h"},
		{"key", "MSET a 1 h 2", "expired:h set:a set:h"},
		{"key", "LPUSH h v", "expired:h lpush:h"},
		{"key", "SETNX h v", "expired:h set:h"},
		{"key", "GETEX h PERSIST", ""},
		{"key", "APPEND h x", "expired:h append:h"},
	} {
		c.Do("DEL", "h")
		c.Do("SET", "src", "v")
		switch tt.end {
		case "one field":
			c.Do("HSET", "h", "live", "v")
			fallthrough
		case "fields":
			c.Do("HSETEX", "h", "PX", "1", "FIELDS", "1", "f", "v")
			servertest.Eventually(t, "the field has expired", func() bool { return c.Do("HEXISTS", "h", "f") == ":0\r\n" })
		default:
			c.Do("SET", "h", "v", "PX", "1")
			servertest.Eventually(t, "the key has expired", func() bool { return c.Do("EXISTS", "h") == ":0\r\n" })
		}
		c.Do("PUBLISH", "__keyevent@0__:begin", "x")
		events(s, "begin:x")
		c.DoAll(tt.commands)
		c.Do("PUBLISH", "__keyevent@0__:end", "x")
		got := events(s, "end:x")
		if want := append(strings.Fields(tt.want), "end:x"); !slices.Equal(got, want) {
			t.Errorf("%s after its %s: %v, want %v", tt.commands, tt.end, got, want)
		}
	}
}

// TestReplacedAfterExpiry for a key of another database that MOVE or COPY replaces.
func TestReplacedInOtherDatabase(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "EA", "redis-databases", "2")
	s, c := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__keyevent*")
	c.Do("SET", "probe", "v", "PX", "1")
	events(s, "expired:probe")                                 // the sweep has visited all keys
	h.DB.OnExpiry(nil)                                         // the sweep does not learn of later expiries
	for _, tt := range []struct{ end, commands, want string }{ // 1: is an event of database 1
		{"fields", "MOVE h 1", "1:hexpired:h 1:del:h move_from:h 1:move_to:h"},
		{"fields", "COPY src h DB 1", "1:hexpired:h 1:del:h 1:copy_to:h"},
		{"fields", "COPY src h DB 1 REPLACE", "1:hexpired:h 1:del:h 1:copy_to:h"},
		{"fields", "COPY src src DB 1", "1:copy_to:src"},
		{"fields", "COPY none h DB 1", ""},
		{"fields", "MOVE none 1", ""},
		{"fields", "EVAL return(redis.call('move',KEYS[1],1)) 1 h", "1:hexpired:h 1:del:h move_from:h 1:move_to:h"},
		{"fields", "MULTI;COPY src h DB 1;SET x y;EXEC", "1:hexpired:h 1:del:h 1:copy_to:h set:x"},
		{"key", "MOVE h 1", "1:expired:h move_from:h 1:move_to:h"},
		{"key", "COPY src h DB 1", "1:expired:h 1:copy_to:h"},
	} {
		c.Do("FLUSHALL")
		c.Do("MSET", "src", "v", "h", "v")
		c.Want("SELECT 1", "+OK\r\n")
		if tt.end == "fields" {
			c.Do("HSETEX", "h", "PX", "1", "FIELDS", "1", "f", "v")
		} else {
			c.Do("SET", "h", "v", "PX", "1")
		}
		servertest.Eventually(t, "it has expired", func() bool { return c.Do("EXISTS", "h") == ":0\r\n" })
		c.Want("SELECT 0", "+OK\r\n")
		c.Do("PUBLISH", "__keyevent@0__:begin", "x")
		events(s, "begin:x")
		c.DoAll(tt.commands)
		c.Do("PUBLISH", "__keyevent@0__:end", "x")
		got := events(s, "end:x")
		for i := range got {
			got[i] = strings.Replace(got[i], "__keyevent@1__", "1", 1)
		}
		if want := append(strings.Fields(tt.want), "end:x"); !slices.Equal(got, want) {
			t.Errorf("%s after its %s: %v, want %v", tt.commands, tt.end, got, want)
		}
	}
}

// The sweep deletes a hash with many fields that expire one by one. It has at most about one entry for each field.
func TestManyFieldsExpire(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "Eg")
	s, c := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__keyevent*:del")
	c.Do("HSET", "h", "first", "v")
	for i := range 300 {
		c.Do("HSETEX", "h", "PX", fmt.Sprint(20+i), "FIELDS", "1", fmt.Sprint("f", i), "v")
	}
	c.Do("HPEXPIRE", "h", "400", "FIELDS", "1", "first")
	if got := events(s, "del:h"); len(got) != 1 {
		t.Errorf("events %q", got)
	}
	c.Want("EXISTS h", ":0\r\n")
	c.Want("DBSIZE", ":0\r\n")
	if n := h.Sweep().Len(); n > 302 {
		t.Errorf("the sweep has %d entries of one hash", n)
	}
}

// CONFIG GET shows the classes in Redis's order, whatever the order in CONFIG SET.
func TestEventClasses(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, tt := range [][2]string{
		{"", ""}, {"KEA", "AKE"}, {"AKE", "AKE"}, {"Ex", "xE"}, {"Elg", "glE"}, {"KEg$lshzxetd", "AKE"}, {"Km",
			"Km"}, {"nE", "nE"},
		{"mnKElg", "glnKEm"}, {"tEdz", "ztdE"}, {"EEE", "E"}, {"AKEmn", "AnKEm"},
	} {
		if got := c.Do("CONFIG", "SET", "notify-keyspace-events", tt[0]); got != "+OK\r\n" {
			t.Errorf("%q: %q", tt[0], got)
		}
		c.Want("CONFIG GET notify-keyspace-events", servertest.Bulk("notify-keyspace-events", tt[1]))
		before, ok1 := command.ParseEvents(tt[0])
		after, ok2 := command.ParseEvents(tt[1])
		if !ok1 || !ok2 || before != after {
			t.Errorf("%q: %b, %q: %b", tt[0], before, tt[1], after)
		}
	}
	if _, ok := command.ParseEvents("Ky"); ok {
		t.Error("the unknown class y was accepted")
	}
}
