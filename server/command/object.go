package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
)

var objectCommands = []Spec{
	{Name: "object", Arity: -2, Sub: []Spec{
		{Name: "dump", Handler: objectDump, Arity: 3, Flags: ReadOnly},
		{Name: "encoding", Handler: objectEncoding, Arity: 3, Flags: ReadOnly},
		{Name: "freq", Handler: objectFreq, Arity: 3, Flags: ReadOnly},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
		{Name: "idletime", Handler: objectConstant(0), Arity: 3, Flags: ReadOnly},
		{Name: "refcount", Handler: objectConstant(1), Arity: 3, Flags: ReadOnly},
	}},
	{Name: "kmetadata", Handler: kmetadata, Arity: 2, Flags: ReadOnly | Single},
}

// ofObject calls f with the record of the key, or replies that the key does not exist.
func ofObject(c *Ctx, f func(rec *engine.Record) error) error {
	rec, err := c.Tx.LoadHead(c.Args[2])
	if err != nil {
		return err
	}
	if !rec.Exists {
		c.Out.Null()
		return nil
	}
	return f(&rec)
}

func objectEncoding(c *Ctx) error {
	return ofObject(c, func(rec *engine.Record) error {
		if rec.Type == cf.TypeString {
			c.Out.BulkString(stringEncoding(rec))
			return nil
		}
		name, err := keys.Encoding(c.Tx, rec)
		return replyString(c, name, err)
	})
}

// stringEncoding is the encoding of a string of which perhaps only the head was read: a truncated string is too long
// for the other encodings of Redis.
func stringEncoding(rec *engine.Record) string {
	if rec.Rest > 0 {
		return "raw"
	}
	return str.Encoding(rec.Tail)
}

// objectConstant makes the handler of a subcommand that replies with the same number for every key.
func objectConstant(n int) Handler {
	return func(c *Ctx) error {
		return ofObject(c, func(*engine.Record) error { return replyInt(c, n, nil) })
	}
}

var errNoLFU = engine.NewError("ERR",
	"An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between "+
		"policies at runtime LRU and LFU data will take some time to adjust.")

// objectFreq is OBJECT FREQ: as in Redis, only while maxmemory-policy names an LFU policy, which has no other effect
// here. Accesses are sampled, so it is 0 for keys that are not among the hottest.
func objectFreq(c *Ctx) error {
	return ofObject(c, func(*engine.Record) error {
		if policy, _ := c.Srv.Settings.Get("maxmemory-policy"); !strings.HasSuffix(policy, "-lfu") {
			return errNoLFU
		}
		c.Out.Int(c.Srv.Stats.Frequency(c.Sess.Namespace, c.Args[2]))
		return nil
	})
}

// kmetadata is Kvrocks's KMETADATA key: type, size, expire (milliseconds since the epoch), the first byte of the
// record and the version, then what the type adds. Types with this record only have neither size nor version.
func kmetadata(c *Ctx) error {
	rec, err := c.Tx.LoadHead(c.Args[1])
	switch {
	case err != nil:
		return err
	case !rec.Exists:
		return errorf("NotFound: no such key")
	}
	w, n, mark := c.Out, 0, c.Out.Mark()
	text := func(name, value string) { stringField(w, name, value); n++ }
	number := func(name string, value uint64) { intField(w, name, value); n++ }
	whole := rec.Type.SingleRecord()
	text("type", rec.Type.String())
	if !whole {
		number("size", rec.Size)
	}
	number("expire", rec.Expire)
	number("flags", uint64(rec.Flags()))
	if !whole {
		number("version", rec.Version)
	}
	switch rec.Type {
	case cf.TypeHash:
		ttl, on, err := cf.DecodeHashTail(rec.Tail)
		switch {
		case err != nil:
			return corruptKey(c.Args[1], err)
		case on:
			text("mode", "field-expiration")
			number("persist", ttl.Persist)
			number("lower", ttl.Lower)
			number("upper", ttl.Upper)
		default:
			text("mode", "legacy")
		}
	case cf.TypeList:
		head, tail, err := cf.DecodeListTail(rec.Tail)
		if err != nil {
			return corruptKey(c.Args[1], err)
		}
		number("head", head)
		number("tail", tail)
	case cf.TypeJSON:
		format, _, err := cf.SplitJSONTail(rec.Tail)
		switch {
		case err != nil:
			return corruptKey(c.Args[1], err)
		case format == cf.JSONCBOR:
			text("format", "cbor")
		default:
			text("format", "json")
		}
	}
	w.InsertMap(mark, n)
	return nil
}

// objectDump is Kvrocks's OBJECT DUMP: names and values in turn, all of them bulk strings. The record of a
// missing key has none.
func objectDump(c *Ctx) error {
	rec, err := c.Tx.LoadAny(c.Args[2])
	if err != nil {
		return err
	}
	mark, n := c.Out.Mark(), 0
	field := func(name, value string) {
		stringField(c.Out, name, value)
		n += 2
	}
	number := func(name string, value uint64) { field(name, strconv.FormatUint(value, 10)) }
	if rec.Exists {
		field("namespace", c.Tx.Namespace())
		field("type", rec.Type.String())
		number("version", rec.Version)
		number("expire", rec.Expire/1000+rec.Expire%1000/500)
		number("pexpire", rec.Expire)
		number("size", rec.Size)
		wide := uint64(1)
		if rec.Narrow {
			wide = 0
		}
		number("is_64bit_common_field", wide)
		// A version begins with the time at which it was made, in microseconds.
		made := time.UnixMicro(int64(rec.Version >> 11))
		field("created_at", made.Format("2006-01-02 15:04:05.")+strconv.Itoa(made.Nanosecond()/1000))
		if rec.Type == cf.TypeList {
			head, tail, err := cf.DecodeListTail(rec.Tail)
			if err != nil {
				return corruptKey(c.Args[2], err)
			}
			number("head", head)
			number("tail", tail)
		}
	}
	c.Out.InsertArray(mark, n)
	return nil
}
