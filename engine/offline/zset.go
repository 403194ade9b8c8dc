package offline

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
)

// zsetCheck checks a sorted set: family default has the score of each member, zset_score the members by score. It
// compares sums of hashes of all pairs of the two families, which do not depend on the order. If they differ, it
// compares the pairs one by one.
type zsetCheck struct {
	members
	sum, scoreSum uint64
	scores        uint64
}

// pair returns the subkey in zset_score: score, member.
func pair(score, member []byte) []byte {
	return append(append(make([]byte, 0, len(score)+len(member)), score...), member...)
}

func (z *zsetCheck) add(sub, value []byte) {
	if err := checkScore(value); err != nil {
		// The score index may still have the member; see compare.
		z.bad(BadValue, sub, err)
		return
	}
	z.count++
	z.sum += z.c.hash(pair(value, sub))
}

func checkScore(value []byte) error {
	f, err := cf.ParseDouble(value)
	if err == nil && (len(value) != cf.ScoreLen || math.IsNaN(f)) {
		err = fmt.Errorf("%w: score of %d bytes, %v", cf.ErrCorrupt, len(value), f)
	}
	return err
}

func (z *zsetCheck) addScore(sub []byte) {
	z.scores++
	z.scoreSum += z.c.hash(sub)
}

func (z *zsetCheck) end() {
	if z.sum != z.scoreSum || z.count != z.scores {
		z.compare()
	}
	if z.count > 0 || z.o.meta.Size > 0 {
		z.sized("members")
	}
}

// compare finds the pairs that only one of the two families has. A member that only the index has is restored with its
// score there; if a member has two scores, that of family default wins.
func (z *zsetCheck) compare() {
	n := len(z.o.prefix)
	cur := under(z.c.r, cf.Default, z.o.prefix, memberMax)
	defer cur.Close()
	for cur.Next() && z.c.err == nil {
		member, score := cur.Key()[n:], cur.Value()
		if checkScore(score) != nil {
			continue
		}
		key := z.key(pair(score, member))
		if _, found, err := z.c.r.Get(cf.ZSetScore, key, nil); err == nil && !found {
			z.c.problem(z.o.problem(BadIndex, "member %s is not in the score index", Show(member)),
				func(m *mender) string {
					m.batch.Put(cf.ZSetScore, key, nil)
					return "it was added to the index"
				})
		}
	}
	scores := under(z.c.r, cf.ZSetScore, z.o.prefix, 1)
	defer scores.Close()
	for scores.Next() && z.c.err == nil {
		sub := scores.Key()[n:]
		score, member := sub[:cf.ScoreLen], sub[cf.ScoreLen:]
		value, found, err := z.c.r.Get(cf.Default, z.key(member), nil)
		switch {
		case err != nil || found && string(value) == string(score):
		case found && checkScore(value) == nil:
			key := z.key(sub)
			z.c.problem(z.o.problem(BadIndex, "the score index has member %s with another score", Show(member)),
				func(m *mender) string { return m.drop(cf.ZSetScore, key, "wrong score") })
		default:
			z.count++
			z.c.problem(z.o.problem(BadIndex, "member %s is only in the score index", Show(member)),
				func(m *mender) string {
					m.batch.Put(cf.Default, z.key(member), score)
					return "the member was restored"
				})
		}
	}
}
