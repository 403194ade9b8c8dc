package str_test

import (
	"math/big"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/longdouble"
	"github.com/basaltdb/basalt/engine/str"
)

// TestIncrExFloatSaturates: a sum beyond the greatest long double becomes that, or changes nothing.
func TestIncrExFloatSaturates(t *testing.T) {
	db := enginetest.Open(t)
	for _, sign := range []string{"", "-"} {
		start := sign + "1e4932"
		by, _ := longdouble.Parse([]byte(start))
		limit := longdouble.Max(sign == "-")
		if twice, ok := longdouble.Add(by, by); ok {
			t.Fatalf("%v is no overflow", twice)
		}
		if x, ok := longdouble.Parse(longdouble.Append(nil, limit)); !ok || x.Cmp(limit) != 0 {
			t.Fatalf("the limit is read as %v", x)
		}
		for _, saturate := range []bool{false, true} {
			enginetest.Update(t, db, enginetest.Bytes("k"), func(tx *engine.Tx) error {
				if _, err := str.Set(tx, []byte("k"), []byte(start), str.SetOptions{}); err != nil {
					return err
				}
				value, applied, effect, err := str.IncrExFloat(tx, []byte("k"), by, nil, nil,
					str.IncrOptions{Saturate: saturate})
				if err != nil {
					return err
				}
				want, difference := by, "0"
				if saturate {
					want = limit
					d, _ := longdouble.Add(limit, new(big.Float).Neg(by))
					difference = string(longdouble.Append(nil, d))
				}
				if effect.Written != saturate || string(value) != string(longdouble.Append(nil, want)) ||
					string(applied) != difference {
					t.Errorf("saturate %t: %s, %s, %+v", saturate, value, applied, effect)
				}
				return nil
			})
		}
	}
}
