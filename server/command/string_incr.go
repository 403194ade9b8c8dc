package command

import (
	"math"
	"math/big"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/longdouble"
	"github.com/basaltdb/basalt/engine/str"
)

// INCREX of Redis 8.8, with NX and XX of Valkey 9.2.

var (
	errENX         = engine.NewError("ERR", "ENX flag requires an expiration")
	errBounds      = engine.NewError("ERR", "LBOUND can't be greater than UBOUND")
	errInfiniteAdd = engine.NewError("ERR", "BYFLOAT increment cannot be Infinity")
)

// incrExArgs are the arguments of INCREX key [BYINT n | BYFLOAT n] [LBOUND n] [UBOUND n] [SATURATE]
// [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST] [ENX] [NX | XX]. Numbers are nil where
// they are not given.
type incrExArgs struct {
	byInt, byFloat, lower, upper []byte
	expiry                       expiryOption
	persist                      bool
	str.IncrOptions
}

// parseIncrEx reads the arguments. Each option may be given once.
func parseIncrEx(args [][]byte) (a incrExArgs, err error) {
	o := options{args: args}
	for o.more() {
		switch {
		case a.byInt == nil && a.byFloat == nil && (o.value("BYINT", &a.byInt) || o.value("BYFLOAT", &a.byFloat)):
		case a.lower == nil && o.value("LBOUND", &a.lower):
		case a.upper == nil && o.value("UBOUND", &a.upper):
		case !a.Saturate && o.flag("SATURATE", &a.Saturate):
		case !a.persist && a.expiry.arg == nil && a.expiry.take(&o):
		case !a.persist && a.expiry.arg == nil && !a.IfNoExpiry && o.flag("PERSIST", &a.persist):
		case !a.persist && !a.IfNoExpiry && o.flag("ENX", &a.IfNoExpiry):
		case !a.IfMissing && !a.IfExists && (o.flag("NX", &a.IfMissing) || o.flag("XX", &a.IfExists)):
		default:
			return a, ErrSyntax
		}
	}
	if a.IfNoExpiry && a.expiry.arg == nil {
		return a, errENX
	}
	return a, nil
}

// incrEx is INCREX.
func incrEx(c *Ctx) error {
	a, err := parseIncrEx(c.Args[2:])
	if err != nil {
		return err
	}
	if a.byFloat != nil {
		return incrExFloat(c, &a)
	}
	by, lower, upper := int64(1), int64(math.MinInt64), int64(math.MaxInt64)
	for _, n := range []struct {
		text []byte
		name string
		to   *int64
	}{{a.byInt, "Increment", &by}, {a.lower, "LBOUND", &lower}, {a.upper, "UBOUND", &upper}} {
		if n.text == nil {
			continue
		}
		var ok bool
		if *n.to, ok = ParseInt(n.text); !ok {
			return errorf("%s is not an integer or out of range", n.name)
		}
	}
	if lower > upper {
		return errBounds
	}
	if err := a.takeExpiry(c); err != nil {
		return err
	}
	return onString(c, func() error {
		value, applied, effect, err := str.IncrEx(c.Tx, c.Args[1], by, lower, upper, a.IncrOptions)
		if err != nil {
			return err
		}
		a.tell(c, "incrby", effect)
		c.Out.Array(2)
		c.Out.Int(value)
		c.Out.Int(applied)
		return nil
	})
}

// incrExFloat is INCREX with BYFLOAT.
func incrExFloat(c *Ctx, a *incrExArgs) error {
	var by, lower, upper *big.Float
	for _, n := range []struct {
		text []byte
		name string
		to   **big.Float
	}{{a.byFloat, "Increment", &by}, {a.lower, "LBOUND", &lower}, {a.upper, "UBOUND", &upper}} {
		if n.text == nil {
			continue
		}
		var ok bool
		if *n.to, ok = longdouble.Parse(n.text); !ok {
			return errorf("%s is not a valid float", n.name)
		}
	}
	switch {
	case by.IsInf():
		return errInfiniteAdd
	case lower != nil && upper != nil && lower.Cmp(upper) > 0:
		return errBounds
	}
	if err := a.takeExpiry(c); err != nil {
		return err
	}
	return onString(c, func() error {
		value, applied, effect, err := str.IncrExFloat(c.Tx, c.Args[1], by, lower, upper, a.IncrOptions)
		if err != nil {
			return err
		}
		a.tell(c, "incrbyfloat", effect)
		c.Out.Array(2)
		c.Out.Decimal(value)
		c.Out.Decimal(applied)
		return nil
	})
}

// takeExpiry sets the option Expiry.
func (a *incrExArgs) takeExpiry(c *Ctx) error {
	at, err := a.expiry.millis(c)
	a.Expiry = str.Expiry{Change: a.persist || a.expiry.arg != nil, At: at}
	return err
}

// tell tells of the events. The event of a key that is deleted follows from its absence.
func (a *incrExArgs) tell(c *Ctx, name string, effect str.IncrEffect) {
	if !effect.Written || effect.Expired {
		return
	}
	c.Tell(EventString, name, c.Args[1])
	switch {
	case !effect.Expiry:
	case a.persist:
		c.Tell(EventGeneric, "persist", c.Args[1])
	default:
		c.Tell(EventGeneric, "expire", c.Args[1])
	}
}
