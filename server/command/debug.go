package command

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/server/glob"
)

var debugCommands = []Spec{
	{Name: "debug", Handler: debug, Arity: -2, Flags: Admin | NoScript | Loading | Stale | Solo | AdminOnly},
	{Name: "lolwut", Handler: lolwut, Arity: -1, Flags: ReadOnly | Fast},
}

// debugSub is a subcommand of DEBUG; args counts the arguments after its name, most < 0 = no limit.
type debugSub struct {
	name        string
	least, most int
	run         func(c *Ctx) error
	help        []string
}

// The subcommands that test suites and tests of clients use. Subcommands that crash Redis on purpose, or change
// internals of Redis, are refused: see refusedDebug.
var debugSubs []debugSub

func init() {
	ok := func(c *Ctx) error {
		return replyOK(c, nil)
	}
	debugSubs = []debugSub{
		{"change-repl-id", 0, 0, ok, []string{"CHANGE-REPL-ID", "    Accepted and without effect."}},
		{"dbsize-limit", 1, 1, debugSizeLimit, []string{"DBSIZE-LIMIT <0|1>",
			"    Behave as if max-db-size were reached, or not, until it is looked at again."}},
		{"digest", 0, 0, debugDigest, []string{"DIGEST", "    A hash of all keys of the namespace and what they hold."}},
		{"digest-value", 0, -1, debugDigestValue, []string{"DIGEST-VALUE <key> [<key> ...]",
			"    A hash of what each key holds."}},
		{"error", 1, 1, debugError, []string{"ERROR <text>", "    That text as an error."}},
		{"listpack", 1, 1, debugInside("listpack"), []string{"LISTPACK <key>", "    An error: no value is a listpack."}},
		{"loadaof", 0, 0, debugReload, []string{"LOADAOF", "    As RELOAD."}},
		{"log", 1, 1, debugLog, []string{"LOG <text>", "    Write a line to the server's log."}},
		{"object", 1, 2, debugObject, []string{"OBJECT <key>", "    Facts about the record of a key."}},
		{"pause-cron", 1, 1, ok, nil},
		{"populate", 1, 3, debugPopulate, []string{"POPULATE <count> [<prefix>] [<size>]",
			"    Make that many string keys <prefix>:<number>, by default key:<number>.",
			"    Existing keys stay as they are."}},
		{"protocol", 1, 1, debugProtocol,
			[]string{"PROTOCOL <type>",
				"    A reply of that type: string, integer, double, null, array, set, map, attrib,",
				"    push, verbatim, true, false or bignum."}},
		{"quicklist", 1, 2, debugInside("quicklist"), nil},
		{"quicklist-packed-threshold", 1, 1, ok, []string{"QUICKLIST-PACKED-THRESHOLD <size>",
			"    Accepted and without effect: no value is a quicklist."}},
		{"reload", 0, -1, debugReload, []string{"RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
			"    Write all memtables to files and drop what is cached, so that everything is read from the disk."}},
		{"replybuffer", 1, -1, ok, nil},
		{"sdslen", 1, 1, debugStringLength, nil},
		{"set-active-expire", 1, 1, ok, []string{"SET-ACTIVE-EXPIRE <0|1>",
			"    Accepted and without effect: expired keys are dropped by compactions."}},
		{"set-disable-deny-scripts", 1, 1, debugInScripts, []string{"SET-DISABLE-DENY-SCRIPTS <0|1>",
			"    Whether scripts may call DEBUG PROTOCOL and DEBUG SLEEP."}},
		{"set-skip-checksum-validation", 1, 1, ok, nil},
		{"sleep", 1, 1, debugSleep, []string{"SLEEP <seconds>", "    Reply after that time. Only this connection waits."}},
		{"stringmatch-len", 2, 2, debugMatch, []string{"STRINGMATCH-LEN <pattern> <text>",
			"    Whether a text matches a glob pattern."}},
		{"ziplist", 1, 1, debugInside("ziplist"), nil},
		{"dict-resizing", 1, 1, ok, nil},
		{"aof-flush-sleep", 1, 1, ok, nil},
		{"htstats", 1, 2, debugNoTables, []string{"HTSTATS <db> [full], HTSTATS-KEY <key> [full]",
			"    There are no hash tables in memory to tell of."}},
		{"htstats-key", 1, 2, debugNoTables, nil},
	}
}

// refusedDebug are subcommands of Redis that end the process or damage it.
var refusedDebug = [][]byte{[]byte("panic"), []byte("segfault"), []byte("assert"), []byte("oom"), []byte("leak"),
	[]byte("restart"), []byte("crash-and-recover"),
	[]byte("jmap"), []byte("mallctl"), []byte("mallctl-str"), []byte("drop-cluster-packet-filter"), []byte("clusterlink")}

func debug(c *Ctx) error {
	sub, n := c.Args[1], len(c.Args)-2
	if EqualFold(sub, "HELP") && n == 0 {
		var lines []string
		for _, s := range debugSubs {
			lines = append(lines, s.help...)
		}
		writeHelp(c, "DEBUG", lines)
		return nil
	}
	for _, s := range debugSubs {
		if bytes.EqualFold(sub, []byte(s.name)) && n >= s.least && (s.most < 0 || n <= s.most) {
			return s.run(c)
		}
	}
	for _, name := range refusedDebug {
		if bytes.EqualFold(sub, name) {
			return errorf("DEBUG %s is refused: it would end or damage the server", bytes.ToUpper(name))
		}
	}
	return wrongSubcommand(c)
}

// debugSleep reads a malformed number as 0, as Redis does.
func debugSleep(c *Ctx) error {
	seconds, _ := ParseFloat(c.Args[2])
	seconds = min(max(seconds, 0), 1e9)
	t := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.Sess.Control.Done():
	}
	return replyOK(c, nil)
}

func debugError(c *Ctx) error {
	code, text, ok := bytes.Cut(c.Args[2], []byte(" "))
	if !ok {
		code, text = nil, c.Args[2]
	}
	return engine.NewError(string(code), string(text))
}

func debugLog(c *Ctx) error {
	c.Srv.Debug.Log("DEBUG LOG: " + string(c.Args[2]))
	return replyOK(c, nil)
}

func debugSizeLimit(c *Ctx) error {
	on := string(c.Args[2]) == "1"
	if !on && string(c.Args[2]) != "0" {
		return ErrSyntax
	}
	c.Srv.Debug.SetFull(on)
	return replyOK(c, nil)
}

// debugNoTables is Redis's report on hash tables, for a database without any.
func debugNoTables(c *Ctx) error {
	return replyVerbatim(c, "No stats available for empty dictionaries\n", nil)
}

func debugInScripts(c *Ctx) error {
	c.Srv.Debug.AllowDebugInScripts(string(c.Args[2]) == "1")
	return replyOK(c, nil)
}

// debugReload accepts Redis's options, which have no effect.
func debugReload(c *Ctx) error {
	for _, a := range c.Args[2:] {
		if !EqualFold(a, "NOSAVE") && !EqualFold(a, "NOFLUSH") && !EqualFold(a, "MERGE") {
			return engine.NewError("ERR", "DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
		}
	}
	if err := c.Srv.DB.FlushMemtables(); err != nil {
		return err
	}
	c.Srv.DB.DropCaches()
	return replyOK(c, nil)
}

// locked holds the read side of a key's lock while f runs: the pipeline does not know the keys of DEBUG.
func locked(c *Ctx, key []byte, f func() error) error {
	if c.NoBlock { // EXEC keeps its locks until its commit, and takes no more
		return f()
	}
	c.Tx.AddLock(key, false)
	if err := c.Tx.Acquire(); err != nil {
		return err
	}
	defer c.Tx.Unlock()
	return f()
}

func debugDigest(c *Ctx) error {
	d, err := keys.DigestAll(c.Tx)
	if err != nil {
		return err
	}
	c.Out.SimpleString(hex.EncodeToString(d[:]))
	return nil
}

func debugDigestValue(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	for _, key := range c.Args[2:] {
		err := locked(c, key, func() error {
			d, err := keys.Digest(c.Tx, key)
			c.Out.SimpleString(hex.EncodeToString(d[:]))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withHead calls f with the record of the key that a subcommand names, while the lock of the key is held.
func withHead(c *Ctx, f func(rec *engine.Record) error) error {
	return locked(c, c.Args[2], func() error {
		rec, err := c.Tx.LoadHead(c.Args[2])
		switch {
		case err != nil:
			return err
		case !rec.Exists:
			return ErrNoSuchKey
		}
		return f(&rec)
	})
}

// debugObject replies as Redis does, with the facts about a record: its encoding in Redis, its length in bytes, its
// version.
func debugObject(c *Ctx) error {
	return withHead(c, func(rec *engine.Record) (err error) {
		encoding := ""
		if rec.Type == cf.TypeString {
			encoding = stringEncoding(rec)
		} else if encoding, err = keys.Encoding(c.Tx, rec); err != nil {
			return err
		}
		size, _, err := keys.Size(c.Tx, c.Args[2], sampled)
		if err != nil {
			return err
		}
		c.Out.SimpleString(fmt.Sprintf("Value at:0x%x refcount:1 encoding:%s serializedlength:%d lru:0 lru_seconds_idle:0 "+
			"type:%s version:%d size:%d",
			rec.Version, encoding, size, rec.Type, rec.Version, rec.Size))
		return nil
	})
}

// debugInside is for subcommands that show the internals of an encoding that only Redis has.
func debugInside(encoding string) func(c *Ctx) error {
	return func(c *Ctx) error {
		return withHead(c, func(*engine.Record) error {
			return engine.NewError("ERR", "Not a "+encoding+" encoded object.")
		})
	}
}

func debugStringLength(c *Ctx) error {
	return withHead(c, func(rec *engine.Record) error {
		if rec.Type != cf.TypeString {
			return engine.NewError("ERR", "Not an sds encoded string.")
		}
		key := c.Args[2]
		c.Out.SimpleString(fmt.Sprintf("key_sds_len:%d, key_sds_avail:0, key_zmalloc: %d, val_sds_len:%d, val_sds_avail:0, "+
			"val_zmalloc: %d",
			len(key), len(key), len(rec.Tail)+rec.Rest, len(rec.Tail)+rec.Rest))
		return nil
	})
}

func debugMatch(c *Ctx) error {
	return replyBool(c, glob.Compile(c.Args[2]).Match(c.Args[3]), nil)
}

// debugProtocol writes an example of each type of reply, for tests of client libraries.
func debugProtocol(c *Ctx) error {
	w := c.Out
	switch {
	case EqualFold(c.Args[2], "STRING"):
		w.BulkString("Hello World")
	case EqualFold(c.Args[2], "INTEGER"):
		w.Int(12345)
	case EqualFold(c.Args[2], "DOUBLE"):
		w.Double(3.141)
	case EqualFold(c.Args[2], "NULL"):
		w.Null()
	case EqualFold(c.Args[2], "ARRAY"):
		w.Array(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case EqualFold(c.Args[2], "SET"):
		w.Set(3)
		for i := range 3 {
			w.Int(int64(i))
		}
	case EqualFold(c.Args[2], "MAP"):
		w.Map(3)
		for i := range 3 {
			w.Int(int64(i))
			w.Bool(i == 1)
		}
	case EqualFold(c.Args[2], "ATTRIB"):
		if w.Proto > 2 {
			w.Attribute(1)
			w.BulkString("key-popularity")
			w.Array(2)
			intField(w, "key:123", 90)
		}
		w.BulkString("Some real reply following the attribute")
	case EqualFold(c.Args[2], "PUSH"):
		if w.Proto == 2 {
			return engine.NewError("ERR", "RESP2 is not supported by this command")
		}
		w.Push(2)
		intField(w, "server-cpu-usage", 42)
		w.BulkString("Some real reply following the push reply")
	case EqualFold(c.Args[2], "VERBATIM"):
		w.Verbatim("txt", "This is a verbatim\nstring")
	case EqualFold(c.Args[2], "TRUE"):
		w.Bool(true)
	case EqualFold(c.Args[2], "FALSE"):
		w.Bool(false)
	case EqualFold(c.Args[2], "BIGNUM"):
		w.BigNumber("1234567999999999999999999999999999999")
	default:
		return engine.NewError("ERR",
			"Wrong protocol type name. Please use one of the following: "+
				"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false")
	}
	return nil
}

// lolwut draws columns as they stand at the shore; VERSION and what follows are accepted and make no difference.
func lolwut(c *Ctx) error {
	if len(c.Args) > 2 && EqualFold(c.Args[1], "VERSION") {
		if _, ok := ParseInt(c.Args[2]); !ok {
			return ErrNotInteger
		}
	}
	var b bytes.Buffer
	heights := []int{3, 5, 4, 6, 7, 5, 6, 4, 3, 5, 2}
	for row := 7; row >= 0; row-- {
		for i, h := range heights {
			switch {
			case row == h:
				b.WriteString(" __ ")
			case row > h:
				b.WriteString("    ")
			case (row+i)%3 == 0:
				b.WriteString("|__|")
			default:
				b.WriteString("|  |")
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\nRedis ver. " + RedisVersion + "\n")
	return replyVerbatim(c, b.String(), nil)
}
