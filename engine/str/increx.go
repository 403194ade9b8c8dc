package str

import (
	"math"
	"math/big"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/longdouble"
)

// Errors of IncrEx and IncrExFloat.
var (
	ErrInfinity        = engine.NewError("ERR", "value cannot be Infinity")
	ErrAppliedOverflow = engine.NewError("ERR", "applied increment would overflow")
)

// IncrOptions are the options of IncrEx and IncrExFloat.
type IncrOptions struct {
	// Saturate stores the bound, or the limit of the numbers, that the sum has passed. Otherwise such a sum changes
	// nothing.
	Saturate            bool
	IfMissing, IfExists bool // otherwise nothing changes
	Expiry              Expiry
	IfNoExpiry          bool // a key with an expiry keeps it
}

// IncrEffect says what IncrEx or IncrExFloat has changed.
type IncrEffect struct {
	Written bool // the number was written, or the key deleted
	Expiry  bool // the expiry was set or removed, and has not passed
	Expired bool // the new expiry has passed: the key does not exist
}

// IncrEx adds by to the integer in a key (0 when the key is missing) if the sum is between two bounds, both included.
// It returns the integer that the key then has, and what was added to it.
func IncrEx(tx *engine.Tx, key []byte, by, lower, upper int64, o IncrOptions) (
	value, applied int64, effect IncrEffect, err error) {
	rec, n, err := loadInt(tx, key)
	if err != nil || !o.met(&rec) {
		return n, 0, effect, err
	}
	sum := n + by
	overflow := by > 0 && sum < n || by < 0 && sum > n
	if overflow {
		sum = math.MaxInt64
		if by < 0 {
			sum = math.MinInt64
		}
	}
	if overflow || sum < lower || sum > upper {
		if !o.Saturate {
			return n, 0, effect, nil
		}
		sum = min(max(sum, lower), upper)
	}
	if applied = sum - n; sum > n && applied < 0 || sum < n && applied > 0 {
		return n, 0, effect, ErrAppliedOverflow
	}
	var text [20]byte
	return sum, applied, o.save(tx, &rec, strconv.AppendInt(text[:0], sum, 10)), nil
}

// IncrExFloat is IncrEx for numbers of package longdouble. The results are decimal strings; a nil bound is none.
func IncrExFloat(tx *engine.Tx, key []byte, by, lower, upper *big.Float, o IncrOptions) (
	value, applied []byte, effect IncrEffect, err error) {
	rec, x, err := loadFloat(tx, key)
	switch {
	case err != nil:
		return nil, nil, effect, err
	case x.IsInf():
		return nil, nil, effect, ErrInfinity
	case !o.met(&rec):
		return longdouble.Append(nil, x), []byte("0"), effect, nil
	}
	sum, ok := longdouble.Add(x, by)
	if !ok {
		sum = longdouble.Max(by.Signbit())
	}
	low, high := lower != nil && sum.Cmp(lower) < 0, upper != nil && sum.Cmp(upper) > 0
	if !ok || low || high {
		switch {
		case !o.Saturate:
			return longdouble.Append(nil, x), []byte("0"), effect, nil
		case low:
			sum = lower
		case high:
			sum = upper
		}
	}
	difference, ok := longdouble.Add(sum, new(big.Float).Neg(x))
	if !ok {
		return nil, nil, effect, ErrAppliedOverflow
	}
	value = longdouble.Append(nil, sum)
	return value, longdouble.Append(nil, difference), o.save(tx, &rec, value), nil
}

// met reports whether the key may be changed.
func (o *IncrOptions) met(rec *engine.Record) bool {
	return !(o.IfMissing && rec.Exists || o.IfExists && !rec.Exists)
}

// save writes the number and the expiry of a key.
func (o *IncrOptions) save(tx *engine.Tx, rec *engine.Record, text []byte) IncrEffect {
	effect := IncrEffect{Written: true}
	if e := o.Expiry; e.Change && !(o.IfNoExpiry && rec.Expire != 0) {
		if e.At != 0 && e.At <= tx.Now() {
			if effect.Expired = true; rec.Exists {
				expireNow(tx, rec)
			}
			return effect
		}
		effect.Expiry = e.At != 0 || rec.Expire != 0
		rec.Expire = uint64(e.At)
	}
	save(tx, rec, text)
	return effect
}

// loadInt loads a key that holds an integer, or is missing and counts as 0.
func loadInt(tx *engine.Tx, key []byte) (rec engine.Record, n int64, err error) {
	rec, err = tx.LoadShort(key, cf.TypeString, maxIntLen)
	if err != nil || !rec.Exists {
		return rec, 0, err
	}
	n, ok := parseInt(rec.Tail)
	if !ok || rec.Rest > 0 {
		return rec, 0, ErrNotInteger
	}
	return rec, n, nil
}

// loadFloat loads a key that holds a number, or is missing and counts as 0.
func loadFloat(tx *engine.Tx, key []byte) (rec engine.Record, x *big.Float, err error) {
	rec, err = tx.LoadShort(key, cf.TypeString, longdouble.MaxLen)
	if err != nil {
		return rec, nil, err
	}
	value := []byte("0")
	if rec.Exists {
		value = rec.Tail
	}
	x, ok := longdouble.Parse(value)
	if !ok || rec.Rest > 0 {
		return rec, nil, ErrNotFloat
	}
	return rec, x, nil
}
