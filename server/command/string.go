package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
)

var stringCommands = []Spec{
	{Name: "get", Handler: get, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "set", Handler: set, Arity: -3, Flags: Write | DenyOOM | Blind},
	{Name: "setex", Handler: setEx, Arity: 4, Flags: Write | DenyOOM | Blind},
	{Name: "psetex", Handler: setEx, Arity: 4, Flags: Write | DenyOOM | Blind},
	{Name: "setnx", Handler: setNX, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "getset", Handler: getSet, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "getex", Handler: getEx, Arity: -2, Flags: Write | Fast},
	{Name: "getdel", Handler: getDel, Arity: 2, Flags: Write | Fast},
	{Name: "mget", Handler: mget, Arity: -2, Flags: ReadOnly | Fast | Single},
	{Name: "mset", Handler: mset, Arity: -3, Flags: Write | DenyOOM | Blind},
	{Name: "msetnx", Handler: msetNX, Arity: -3, Flags: Write | DenyOOM},
	{Name: "append", Handler: appendString, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "strlen", Handler: strlen, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "getrange", Handler: getRange, Arity: 4, Flags: ReadOnly | Single},
	{Name: "substr", Handler: getRange, Arity: 4, Flags: ReadOnly | Single},
	{Name: "setrange", Handler: setRange, Arity: 4, Flags: Write | DenyOOM},
	{Name: "incr", Handler: add(1), Arity: 2, Flags: Write | DenyOOM | Fast},
	{Name: "decr", Handler: add(-1), Arity: 2, Flags: Write | DenyOOM | Fast},
	{Name: "incrby", Handler: incrBy, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "decrby", Handler: decrBy, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "incrbyfloat", Handler: incrByFloat, Arity: 3, Flags: Write | DenyOOM | Fast},
	{Name: "increx", Handler: incrEx, Arity: -2, Flags: Write | DenyOOM | Fast},
	{Name: "cas", Handler: cas, Arity: -4, Flags: Write | DenyOOM | Fast},
	{Name: "cad", Handler: cad, Arity: 3, Flags: Write | Fast},
	{Name: "digest", Handler: digest, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "delex", Handler: delEx, Arity: -2, Flags: Write | Fast},
	{Name: "delifeq", Handler: delIfEq, Arity: 3, Flags: Write | Fast},
	{Name: "msetex", Handler: msetEx, Arity: -4, Flags: Write | DenyOOM | Blind | MovableKeys,
		Keys: msetExKeys},
}

func get(c *Ctx) error {
	value, found, err := stringValue(c, c.Args[1])
	return replyBulkOrNull(c, value, found, err)
}

// expiryOption is EX, PX, EXAT or PXAT with its argument, which is not parsed before millis.
type expiryOption struct {
	arg      []byte // nil = none of them
	unit     int64
	relative bool
}

// take takes one of the options. Two different options exclude each other; the same option twice is allowed.
func (e *expiryOption) take(o *options) bool {
	if len(o.args) < 2 {
		return false
	}
	unit, relative, ok := expiryWord(o.args[0])
	if !ok || e.arg != nil && (e.unit != unit || e.relative != relative) {
		return false
	}
	*e = expiryOption{o.args[1], unit, relative}
	o.args = o.args[2:]
	return true
}

// millis returns the time of the expiry in milliseconds since the epoch, 0 without an option.
func (e *expiryOption) millis(c *Ctx) (int64, error) {
	if e.arg == nil {
		return 0, nil
	}
	n, ok := ParseInt(e.arg)
	if !ok {
		return 0, ErrNotInteger
	}
	base := timeBase(c, e.relative)
	if n <= 0 || n > math.MaxInt64/e.unit || n*e.unit > math.MaxInt64-base {
		return 0, invalidExpire(c.Spec.FullName())
	}
	return n*e.unit + base, nil
}

func set(c *Ctx) error {
	var o str.SetOptions
	if len(c.Args) > 3 {
		var cond condition
		var err error
		if o, cond, err = setOptions(c); err != nil {
			return err
		}
		if cond.kind != 0 {
			met, err := cond.metBySet(c)
			if err != nil {
				return err
			}
			if !met {
				return setNothing(c, o.Get)
			}
		}
	}
	res, err := setGet(c, o)
	switch {
	case err != nil:
		return err
	case o.Get:
		bulkOrNull(c, res.Old, res.Existed)
	case res.Done:
		c.Out.OK()
	default:
		c.Out.Null()
	}
	return nil
}

// setNothing replies for a SET whose condition is not met.
func setNothing(c *Ctx, get bool) error {
	if !get {
		c.Out.Null()
		return nil
	}
	value, found, err := stringValue(c, c.Args[1])
	return replyBulkOrNull(c, value, found, err)
}

func setOptions(c *Ctx) (o str.SetOptions, cond condition, err error) {
	var e expiryOption
	w := options{args: c.Args[3:]}
	for w.more() {
		switch {
		case !o.IfExists && cond.kind == 0 && w.flag("NX", &o.IfMissing):
		case !o.IfMissing && cond.kind == 0 && w.flag("XX", &o.IfExists):
		case !o.IfExists && !o.IfMissing && cond.take(&w):
		case w.flag("GET", &o.Get):
		case e.arg == nil && w.flag("KEEPTTL", &o.KeepTTL):
		case !o.KeepTTL && e.take(&w):
		default:
			return o, cond, ErrSyntax
		}
	}
	o.Expire, err = e.millis(c)
	return o, cond, err
}

// setEx is SETEX and PSETEX.
func setEx(c *Ctx) error {
	e := expiryOption{c.Args[2], milliseconds, true}
	if c.Spec.Name == "setex" {
		e.unit = seconds
	}
	at, err := e.millis(c)
	if err != nil {
		return err
	}
	_, err = str.Set(c.Tx, c.Args[1], c.Args[3], str.SetOptions{Expire: at})
	return replyOK(c, err)
}

func setNX(c *Ctx) error {
	res, err := str.Set(c.Tx, c.Args[1], c.Args[2], str.SetOptions{IfMissing: true})
	return replyBool(c, res.Done, err)
}

func getSet(c *Ctx) error {
	res, err := setGet(c, str.SetOptions{Get: true})
	return replyBulkOrNull(c, res.Old, res.Existed, err)
}

func getEx(c *Ctx) error {
	var e expiryOption
	persist := false
	o := options{args: c.Args[2:]}
	for o.more() {
		switch {
		case e.arg == nil && o.flag("PERSIST", &persist):
		case !persist && e.take(&o):
		default:
			return ErrSyntax
		}
	}
	expiry := func() (str.Expiry, error) {
		at, err := e.millis(c)
		return str.Expiry{Change: persist || e.arg != nil, At: at}, err
	}
	value, found, err := str.GetEx(c.Tx, c.Args[1], expiry)
	if err == engine.ErrWrongType {
		value, err = getExBitmap(c, expiry)
		found = true
	}
	return replyBulkOrNull(c, value, found, err)
}

func getDel(c *Ctx) error {
	value, found, err := str.GetDel(c.Tx, c.Args[1])
	if err == engine.ErrWrongType {
		value, err = getDelBitmap(c)
		found = true
	}
	return replyBulkOrNull(c, value, found, err)
}

// mget finds the records prefetched by the pipeline. A key of another type has no value. All values are read before the
// first one is written, so that a long reply leaves in parts: it does so only without locks.
func mget(c *Ctx) error {
	var few [16][]byte
	values := few[:0]
	if n := len(c.Args) - 1; n > len(few) {
		values = make([][]byte, 0, n)
	}
	for _, key := range c.Args[1:] {
		value, found, err := stringValue(c, key)
		switch {
		case err != nil && err != engine.ErrWrongType:
			return err
		case !found || err != nil:
			value = nil
		case value == nil:
			value = []byte{}
		}
		values = append(values, value)
	}
	return replyValues(c, values)
}

func mset(c *Ctx) error {
	if len(c.Args)%2 == 0 {
		return wrongArgs("mset")
	}
	str.MSet(c.Tx, c.Args[1:])
	return replyOK(c, nil)
}

func msetNX(c *Ctx) error {
	if len(c.Args)%2 == 0 {
		return wrongArgs("msetnx")
	}
	done, err := str.MSetNX(c.Tx, c.Args[1:])
	return replyBool(c, done, err)
}

func appendString(c *Ctx) error {
	return onString(c, func() error {
		n, err := str.Append(c.Tx, c.Args[1], c.Args[2], c.Srv.Settings.MaxBulk())
		return replyInt(c, n, err)
	})
}

func strlen(c *Ctx) error {
	n, err := stringLen(c, c.Args[1])
	return replyInt(c, n, err)
}

// getRange is GETRANGE and SUBSTR.
func getRange(c *Ctx) error {
	start, end, err := bounds(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	part, err := str.Range(c.Tx, c.Args[1], start, end)
	if err == engine.ErrWrongType {
		part, err = bitmapRange(c, start, end)
	}
	return replyBulk(c, part, err)
}

func setRange(c *Ctx) error {
	offset, ok := ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	if offset < 0 {
		return errorf("offset is out of range")
	}
	if len(c.Args[3]) == 0 { // changes nothing
		n, err := stringLen(c, c.Args[1])
		return replyInt(c, n, err)
	}
	return onString(c, func() error {
		n, err := str.SetRange(c.Tx, c.Args[1], offset, c.Args[3], c.Srv.Settings.MaxBulk())
		return replyInt(c, n, err)
	})
}

func incrBy(c *Ctx) error {
	n, ok := ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	return add(n)(c)
}

func decrBy(c *Ctx) error {
	n, ok := ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	if n == math.MinInt64 { // has no negative
		return errorf("decrement would overflow")
	}
	return add(-n)(c)
}

func add(by int64) Handler {
	return func(c *Ctx) error {
		return onString(c, func() error {
			n, err := str.IncrBy(c.Tx, c.Args[1], by)
			return replyInt(c, n, err)
		})
	}
}

func incrByFloat(c *Ctx) error {
	return onString(c, func() error {
		text, err := str.IncrByFloat(c.Tx, c.Args[1], c.Args[2])
		return replyBulk(c, text, err)
	})
}

// cas is Kvrocks's CAS key old new [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds].
func cas(c *Ctx) error {
	var e expiryOption
	o := options{args: c.Args[4:]}
	for o.more() {
		if !e.take(&o) {
			return ErrSyntax
		}
	}
	at, err := e.millis(c)
	if err != nil {
		return err
	}
	m, err := str.CompareAndSet(c.Tx, c.Args[1], c.Args[2], c.Args[3], at)
	return replyInt(c, m, err)
}

// cad is Kvrocks's CAD key value.
func cad(c *Ctx) error {
	m, err := str.CompareAndDelete(c.Tx, c.Args[1], c.Args[2])
	return replyInt(c, m, err)
}
