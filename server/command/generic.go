package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
)

var genericCommands = []Spec{
	{Name: "del", Handler: del, Arity: -2, Flags: Write},
	{Name: "unlink", Handler: del, Arity: -2, Flags: Write | Fast},
	{Name: "exists", Handler: exists, Arity: -2, Flags: ReadOnly | Fast | Single},
	{Name: "touch", Handler: exists, Arity: -2, Flags: ReadOnly | Fast | Single},
	{Name: "type", Handler: typeOf, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "expire", Handler: expire(seconds, true), Arity: -3, Flags: Write | Fast},
	{Name: "pexpire", Handler: expire(milliseconds, true), Arity: -3, Flags: Write | Fast},
	{Name: "expireat", Handler: expire(seconds, false), Arity: -3, Flags: Write | Fast},
	{Name: "pexpireat", Handler: expire(milliseconds, false), Arity: -3, Flags: Write | Fast},
	{Name: "ttl", Handler: ttl(seconds, true), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "pttl", Handler: ttl(milliseconds, true), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "expiretime", Handler: ttl(seconds, false), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "pexpiretime", Handler: ttl(milliseconds, false), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "persist", Handler: persist, Arity: 2, Flags: Write | Fast},
	{Name: "rename", Handler: rename, Arity: 3, Flags: Write},
	{Name: "renamenx", Handler: renameNX, Arity: 3, Flags: Write | Fast},
	{Name: "copy", Handler: copyKey, Arity: -3, Flags: Write | DenyOOM, Keys: copyKeys, OtherNamespace: copyOther},
}

func del(c *Ctx) error {
	n, err := keys.Del(c.Tx, c.Args[1:]...)
	return replyInt(c, n, err)
}

// exists is EXISTS and TOUCH.
func exists(c *Ctx) error {
	n, err := keys.Exists(c.Tx, c.Args[1:]...)
	return replyInt(c, n, err)
}

func typeOf(c *Ctx) error {
	t, err := keys.TypeOf(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	c.Out.SimpleString(t.String())
	return nil
}

// The units of a time, in milliseconds.
const (
	milliseconds = 1
	seconds      = 1000
)

// timeBase returns the time from which times of a command count, in milliseconds since the epoch.
func timeBase(c *Ctx, relative bool) int64 {
	if relative {
		return c.Tx.Clock()
	}
	return 0
}

// expire makes the handler of [P]EXPIRE[AT] key time [NX | XX | GT | LT] ...
func expire(unit int64, relative bool) Handler {
	return func(c *Ctx) error {
		when, err := expireCondition(c.Args[3:])
		if err != nil {
			return err
		}
		n, ok := ParseInt(c.Args[2])
		if !ok {
			return ErrNotInteger
		}
		base := timeBase(c, relative)
		if n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit > math.MaxInt64-base {
			return invalidExpire(c.Spec.FullName())
		}
		done, err := keys.Expire(c.Tx, c.Args[1], n*unit+base, when)
		return replyBool(c, done, err)
	}
}

func expireCondition(args [][]byte) (when keys.Condition, err error) {
	for _, a := range args {
		switch {
		case EqualFold(a, "NX"):
			when |= keys.IfNone
		case EqualFold(a, "XX"):
			when |= keys.IfSome
		case EqualFold(a, "GT"):
			when |= keys.IfLater
		case EqualFold(a, "LT"):
			when |= keys.IfEarlier
		default:
			return 0, errorf("Unsupported option %s", echoed(a))
		}
	}
	switch {
	case when&keys.IfNone != 0 && when != keys.IfNone:
		return 0, errorf("NX and XX, GT or LT options at the same time are not compatible")
	case when&keys.IfLater != 0 && when&keys.IfEarlier != 0:
		return 0, errorf("GT and LT options at the same time are not compatible")
	}
	return when, nil
}

// ttl makes the handler of [P]TTL and [P]EXPIRETIME key: the reply is -1 when the key does not expire, -2 when the key
// does not exist. Seconds are rounded to the nearest.
func ttl(unit int64, relative bool) Handler {
	return func(c *Ctx) error {
		at, exists, err := keys.ExpireTime(c.Tx, c.Args[1])
		switch {
		case err != nil:
			return err
		case !exists:
			c.Out.Int(-2)
		case at == 0:
			c.Out.Int(-1)
		default:
			ms := max(int64(min(at, math.MaxInt64))-timeBase(c, relative), 0)
			c.Out.Int(ms/unit + ms%unit*2/unit)
		}
		return nil
	}
}

func persist(c *Ctx) error {
	done, err := keys.Persist(c.Tx, c.Args[1])
	return replyBool(c, done, err)
}

func rename(c *Ctx) error {
	_, err := keys.Rename(c.Tx, c.Args[1], c.Args[2], false)
	return replyOK(c, err)
}

func renameNX(c *Ctx) error {
	done, err := keys.Rename(c.Tx, c.Args[1], c.Args[2], true)
	return replyBool(c, done, err)
}

var errSameObject = engine.NewError("ERR", "source and destination objects are the same")

// copyKeys: the source is only read.
func copyKeys(args [][]byte, add func(argIndex int, write bool)) error {
	add(1, false)
	add(2, true)
	return nil
}

// copyOptions reads the options of COPY; to is the namespace of the copy.
func copyOptions(srv *Server, sess *Session, ns string, args [][]byte) (to string, replace bool, err error) {
	to = ns
	o := options{args: args[3:]}
	for o.more() {
		switch {
		case o.flag("REPLACE", &replace):
		case o.has("DB", 1):
			n, err := parseDB(o.next())
			o.fail(err)
			var ok bool
			to, ok = database(srv, sess, ns, n)
			o.check(ok, errDBIndex)
		default:
			o.err = ErrSyntax
		}
	}
	return to, replace, o.err
}

func copyOther(srv *Server, sess *Session, ns string, args [][]byte) (string, int, bool) {
	if len(args) == 3 {
		return ns, 0, false
	}
	to, _, err := copyOptions(srv, sess, ns, args)
	return to, 2, err == nil && to != ns
}

func copyKey(c *Ctx) error {
	ns := c.Tx.Namespace()
	to, replace, err := copyOptions(c.Srv, c.Sess, ns, c.Args)
	if err != nil {
		return err
	}
	if to != ns {
		if err := lockIn(c, to, c.Args[2]); err != nil {
			return err
		}
	} else if string(c.Args[1]) == string(c.Args[2]) {
		return errSameObject
	}
	done, err := keys.CopyTo(c.Tx, c.Args[1], to, c.Args[2], replace)
	return replyBool(c, done, err)
}
