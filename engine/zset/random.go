package zset

import (
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Random calls emit with n random members, until emit returns false. A member may occur several times. Without scores,
// emit gets 0 for each score.
func Random(tx *engine.Tx, key []byte, n uint64, scores bool, emit func(member []byte, score float64) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	for n > 0 {
		drawn, err := tx.Draw(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(min(n, engine.SampleMost)), false, scores)
		if err != nil || len(drawn.Subs) == 0 {
			return err
		}
		goOn := true
		err = emitMembers(tx, &rec, drawn, scores, func(member []byte, score float64) {
			goOn = goOn && emit(member, score)
		})
		if err != nil || !goOn {
			return err
		}
		n -= uint64(len(drawn.Subs))
	}
	return nil
}

// RandomDistinct calls emit with n different random members. A set of at most n members is passed whole, in score
// order.
func RandomDistinct(tx *engine.Tx, key []byte, n uint64, scores bool, emit Emit) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	if n >= rec.Size {
		s := span{id: cf.ZSetScore}
		return s.read(tx, &rec, false, 0, math.MaxUint64, emit)
	}
	drawn, err := tx.Draw(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(n), true, scores)
	if err != nil {
		return err
	}
	return emitMembers(tx, &rec, drawn, scores, emit)
}

func emitMembers(tx *engine.Tx, rec *engine.Record, drawn engine.Drawn, scores bool, emit Emit) error {
	members := drawn.Subs
	switch {
	case !scores:
		for _, m := range members {
			emit(m, 0)
		}
		return nil
	case drawn.Values != nil:
		for i, v := range drawn.Values {
			score, err := parseScore(tx, rec, v)
			if err != nil {
				return err
			}
			emit(members[i], score)
		}
		return nil
	}
	return eachScore(tx, rec, members, func(i int, score float64, found bool) {
		if found {
			emit(members[i], score)
		}
	})
}
