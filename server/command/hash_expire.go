package command

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
)

// Expiry of single fields of a hash, as in Redis 7.4, and HGETEX, HSETEX and HGETDEL of Redis 8.0.
var hashExpireCommands = []Spec{
	{Name: "hexpire", Handler: hexpire(seconds, true), Arity: -6, Flags: Write | Fast},
	{Name: "hpexpire", Handler: hexpire(milliseconds, true), Arity: -6, Flags: Write | Fast},
	{Name: "hexpireat", Handler: hexpire(seconds, false), Arity: -6, Flags: Write | Fast},
	{Name: "hpexpireat", Handler: hexpire(milliseconds, false), Arity: -6, Flags: Write | Fast},
	{Name: "httl", Handler: httl(seconds, true), Arity: -5, Flags: ReadOnly | Fast},
	{Name: "hpttl", Handler: httl(milliseconds, true), Arity: -5, Flags: ReadOnly | Fast},
	{Name: "hexpiretime", Handler: httl(seconds, false), Arity: -5, Flags: ReadOnly | Fast},
	{Name: "hpexpiretime", Handler: httl(milliseconds, false), Arity: -5, Flags: ReadOnly | Fast},
	{Name: "hpersist", Handler: hpersist, Arity: -5, Flags: Write | Fast},
	{Name: "hgetex", Handler: hgetex, Arity: -5, Flags: Write | Fast},
	{Name: "hsetex", Handler: hsetex, Arity: -6, Flags: Write | DenyOOM | Fast},
	{Name: "hgetdel", Handler: hgetdel, Arity: -5, Flags: Write | Fast},
}

// maxFieldExpire is the latest time at which Redis lets a field expire, in milliseconds since the epoch.
const maxFieldExpire = 1<<46 - 1

// The error texts of this family are those of Redis.
var (
	errNegativeExpire   = engine.NewError("ERR", "invalid expire time, must be >= 0")
	errNoFieldsWord     = engine.NewError("ERR", "Mandatory argument FIELDS is missing or not at the right position")
	errFieldCount       = engine.NewError("ERR", "Number of fields must be a positive integer")
	errNumFields        = engine.NewError("ERR", "Parameter `numFields` should be greater than 0")
	errFieldsMismatch   = engine.NewError("ERR", "The `numfields` parameter must match the number of arguments")
	errSetFieldCount    = engine.NewError("ERR", "invalid number of fields")
	errNoExpireTime     = engine.NewError("ERR", "missing expire time")
	errTwoConditions    = engine.NewError("ERR", "Only one of FXX or FNX arguments can be specified")
	errFieldsTwice      = engine.NewError("ERR", "FIELDS keyword specified multiple times")
	errTwoExpiries      = engine.NewError("ERR", "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")
	errTwoExpiriesOfGet = engine.NewError("ERR", "Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified")
)

// fieldExpire reads a time in a unit, from now on or absolute, and returns it in milliseconds since the epoch.
func fieldExpire(c *Ctx, arg []byte, unit int64, relative bool) (int64, error) {
	n, ok := ParseInt(arg)
	if !ok {
		return 0, ErrNotInteger
	}
	if n < 0 {
		return 0, errNegativeExpire
	}
	base := timeBase(c, relative)
	if n > maxFieldExpire/unit || n*unit > maxFieldExpire-base {
		return 0, invalidExpire(c.Spec.FullName())
	}
	return base + n*unit, nil
}

// fieldArgs reads FIELDS numfields field [field ...] and returns the fields. badCount is the error for a malformed or
// non-positive number.
func fieldArgs(c *Ctx, args [][]byte, badCount error) ([][]byte, error) {
	if len(args) < 2 {
		return nil, wrongArgs(c.Spec.FullName())
	}
	if !EqualFold(args[0], "FIELDS") {
		return nil, errNoFieldsWord
	}
	n, ok := ParseInt(args[1])
	if !ok || n < 1 {
		return nil, badCount
	}
	if n != int64(len(args)-2) {
		return nil, errFieldsMismatch
	}
	return args[2:], nil
}

// afterType returns the error for wrong arguments, or the error for a key of another type, which Redis checks first.
func afterType(c *Ctx, wrong error) error {
	if _, err := c.Tx.Load(c.Args[1], cf.TypeHash); err != nil {
		return err
	}
	return wrong
}

// hexpire makes the handler of H[P]EXPIRE[AT] key time [NX|XX|GT|LT] FIELDS numfields field [field ...].
func hexpire(unit int64, relative bool) Handler {
	return func(c *Ctx) error {
		at, err := fieldExpire(c, c.Args[2], unit, relative)
		if err != nil {
			return afterType(c, err)
		}
		args, when := c.Args[3:], hash.Always
		for _, o := range []struct {
			word string
			when hash.Condition
		}{{"NX", hash.IfNone}, {"XX", hash.IfSome}, {"GT", hash.IfLater}, {"LT", hash.IfEarlier}} {
			if EqualFold(args[0], o.word) {
				args, when = args[1:], o.when
				break
			}
		}
		fields, err := fieldArgs(c, args, errNumFields)
		if err != nil {
			return afterType(c, err)
		}
		results, err := hash.Expire(c.Tx, c.Args[1], fields, at, when)
		if slices.Contains(results, hash.Done) || slices.Contains(results, hash.Deleted) {
			tellOfExpiry(c, at)
			c.MarkRewrote()
		}
		return replyInts(c, results, err)
	}
}

// tellOfExpiry emits the event of fields that expire at a time; with a time in the past the fields are deleted at
// once.
func tellOfExpiry(c *Ctx, at int64) {
	name := "hexpire"
	if at <= c.Tx.Now() {
		name = "hdel"
	}
	c.Tell(EventHash, name, c.Args[1])
}

// httl makes the handler of H[P]TTL and H[P]EXPIRETIME key FIELDS numfields field [field ...]. Seconds are rounded up.
func httl(unit int64, relative bool) Handler {
	return func(c *Ctx) error {
		fields, err := fieldArgs(c, c.Args[2:], errFieldCount)
		if err != nil {
			return afterType(c, err)
		}
		times, err := hash.ExpireTimes(c.Tx, c.Args[1], fields)
		for i, at := range times {
			if at >= 0 {
				times[i] = (at - timeBase(c, relative) + unit - 1) / unit
			}
		}
		return replyInts(c, times, err)
	}
}

// hpersist is HPERSIST key FIELDS numfields field [field ...].
func hpersist(c *Ctx) error {
	fields, err := fieldArgs(c, c.Args[2:], errFieldCount)
	if err != nil {
		return afterType(c, err)
	}
	results, err := hash.Persist(c.Tx, c.Args[1], fields)
	if slices.Contains(results, hash.Done) {
		c.Tell(EventHash, "hpersist", c.Args[1])
	}
	return replyInts(c, results, err)
}

// expiryWord decodes the words EX, PX, EXAT and PXAT.
func expiryWord(word []byte) (unit int64, relative, ok bool) {
	switch {
	case EqualFold(word, "EX"):
		return seconds, true, true
	case EqualFold(word, "PX"):
		return milliseconds, true, true
	case EqualFold(word, "EXAT"):
		return seconds, false, true
	case EqualFold(word, "PXAT"):
		return milliseconds, false, true
	}
	return 0, false, false
}

// fieldOptions are the arguments of HGETEX and HSETEX.
type fieldOptions struct {
	items [][]byte // fields, or pairs of a field and a value
	ttl   hash.TTL
	when  hash.FieldCondition
}

// parseFieldOptions reads options and FIELDS numfields item [item ...], in any order, as Redis 8.4. Items are pairs
// for HSETEX.
func parseFieldOptions(c *Ctx, pairs bool) (a fieldOptions, err error) {
	per, errExpiries := 1, errTwoExpiriesOfGet
	if pairs {
		per, errExpiries = 2, errTwoExpiries
	}
	var keep, persist, fnx, fxx bool
	o := options{args: c.Args[2:]}
	for o.more() {
		unit, relative, isExpiry := expiryWord(o.args[0])
		switch {
		case o.is("FIELDS"):
			if a.items != nil {
				return a, errFieldsTwice
			}
			if len(o.args) < 1+per {
				return a, wrongArgs(c.Spec.FullName())
			}
			n, ok := ParseInt(o.next())
			if !ok || n < 1 || n > 1<<31-1 {
				return a, errSetFieldCount
			}
			words := int(n) * per
			if words > len(o.args) {
				return a, wrongArgs(c.Spec.FullName())
			}
			a.items, o.args = o.args[:words], o.args[words:]
		case isExpiry:
			o.check(a.ttl.Do == hash.NoTTL, errExpiries)
			o.check(len(o.args) > 1, errNoExpireTime)
			if o.next(); o.err == nil {
				a.ttl.Do = hash.SetTTL
				a.ttl.At, o.err = fieldExpire(c, o.next(), unit, relative)
			}
		case pairs && o.flag("KEEPTTL", &keep), !pairs && o.flag("PERSIST", &persist):
			o.check(a.ttl.Do == hash.NoTTL, errExpiries)
			if a.ttl.Do = hash.KeepTTL; persist {
				a.ttl.Do = hash.DropTTL
			}
		case pairs && o.flag("FNX", &fnx), pairs && o.flag("FXX", &fxx):
			o.check(a.when == hash.AnyField, errTwoConditions)
			if a.when = hash.NewOnly; fxx {
				a.when = hash.OldOnly
			}
		default:
			o.err = engine.NewError("ERR", "unknown argument: "+string(o.args[0]))
		}
	}
	if o.err == nil && a.items == nil {
		o.err = errNoFieldsWord
	}
	return a, o.err
}

// hgetex is HGETEX key [EX s|PX ms|EXAT s|PXAT ms|PERSIST] FIELDS numfields field [field ...].
func hgetex(c *Ctx) error {
	a, err := parseFieldOptions(c, false)
	if err != nil {
		return afterType(c, err)
	}
	fields, ttl := a.items, a.ttl
	c.Out.Array(len(fields))
	changed, err := hash.GetEx(c.Tx, c.Args[1], fields, ttl, func(v []byte, found bool) { bulkOrNull(c, v, found) })
	switch {
	case !changed:
	case ttl.Do == hash.SetTTL:
		tellOfExpiry(c, ttl.At)
		c.MarkRewrote()
	default:
		c.Tell(EventHash, "hpersist", c.Args[1])
	}
	return err
}

// hgetdel is HGETDEL key FIELDS numfields field [field ...].
func hgetdel(c *Ctx) error {
	fields, err := fieldArgs(c, c.Args[2:], errFieldCount)
	if err != nil {
		return afterType(c, err)
	}
	c.Out.Array(len(fields))
	any := false
	err = hash.GetDelete(c.Tx, c.Args[1], fields, func(v []byte, found bool) {
		any = any || found
		bulkOrNull(c, v, found)
	})
	tellHdel(c, any)
	return err
}

// hsetex is HSETEX key [FNX|FXX] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL] FIELDS numfields field value [field value ...].
func hsetex(c *Ctx) error {
	a, err := parseFieldOptions(c, true)
	if err != nil {
		return err
	}
	done, err := hash.SetEx(c.Tx, c.Args[1], a.items, a.ttl, a.when)
	if err != nil {
		return err
	}
	if done {
		c.Tell(EventHash, "hset", c.Args[1])
		if a.ttl.Do == hash.SetTTL {
			tellOfExpiry(c, a.ttl.At)
		}
		c.MarkRewrote()
	}
	c.Out.Int(boolInt(done))
	return nil
}
