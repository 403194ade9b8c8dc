// Package zset is the sorted set on an [engine.Tx]: the operations of ZADD, ZRANGE, ZUNIONSTORE and similar commands,
// without the server and its protocol.
//
// A sorted set is stored twice, in Kvrocks's layout (package cf describes the bytes):
//
//	default family      prefix · member          -> f64 score
//	zset_score family   prefix · score · member  -> empty
//
// and the metadata record holds the number of members. So reading a score is one point read, an order by member is a
// scan of the first family, and an order by score a scan of the second. Every default record has exactly one score key.
//
// A set that loses its last member stays as a record of size 0, which commands do not see and a compaction drops.
//
// Scores are never NaN. A score of -0 is stored as 0, so that the two equal numbers sort as equal. Kvrocks stores -0 as
// it is; a stored -0 is read and replaced correctly.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. Slices passed to a callback are valid until the callback returns. A key of another type gives
// [engine.ErrWrongType].
package zset

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ErrNaN is returned when an increment adds infinity to minus infinity.
var ErrNaN = engine.NewError("ERR", "resulting score is not a number (NaN)")

// Entry is a member with its score.
type Entry struct {
	Member []byte
	Score  float64
}

// Emit receives the members of a result in order.
type Emit func(member []byte, score float64)

func load(tx *engine.Tx, key []byte) (engine.Record, error) { return tx.Load(key, cf.TypeZSet) }

// Card returns the number of members.
func Card(tx *engine.Tx, key []byte) (uint64, error) {
	rec, err := load(tx, key)
	return rec.Size, err
}

// Score returns the score of a member.
func Score(tx *engine.Tx, key, member []byte) (score float64, found bool, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, false, err
	}
	return scoreOf(tx, &rec, member)
}

func scoreOf(tx *engine.Tx, rec *engine.Record, member []byte) (score float64, found bool, err error) {
	value, found, err := tx.Get(cf.Default, tx.Subkey(rec, member))
	if err != nil || !found {
		return 0, false, err
	}
	score, err = parseScore(tx, rec, value)
	return score, err == nil, err
}

// parseScore decodes the value of a member's record in the default family. Its error names the key.
func parseScore(tx *engine.Tx, rec *engine.Record, value []byte) (float64, error) {
	score, err := cf.ParseDouble(value)
	if err != nil {
		err = corrupt(tx, rec, err)
	}
	return score, err
}

// splitScored decodes a subkey of the zset_score family. Its error names the key.
func splitScored(tx *engine.Tx, rec *engine.Record, sub []byte) (member []byte, score float64, err error) {
	if score, member, err = cf.SplitScoreSub(sub); err != nil {
		err = corrupt(tx, rec, err)
	}
	return member, score, err
}

func corrupt(tx *engine.Tx, rec *engine.Record, err error) error {
	return fmt.Errorf("key %q: %w", tx.UserKey(rec), err)
}

// Scores calls f with the score of each member in turn.
func Scores(tx *engine.Tx, key []byte, members [][]byte, f func(score float64, found bool)) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	if !rec.Exists {
		for range members {
			f(0, false)
		}
		return nil
	}
	return eachScore(tx, &rec, members, func(_ int, score float64, found bool) { f(score, found) })
}

// eachScore calls f with the index and the score of each member in turn.
func eachScore(tx *engine.Tx, rec *engine.Record, members [][]byte, f func(i int, score float64, found bool)) error {
	values, err := tx.GetSubkeys(rec, members, 1)
	if err != nil {
		return err
	}
	for i, v := range values {
		score := 0.0
		if v != nil {
			if score, err = parseScore(tx, rec, v); err != nil {
				return err
			}
		}
		f(i, score, v != nil)
	}
	return nil
}

// writer writes the records of one command in Kvrocks's order: log data before the first record, the metadata record
// last and only when the size changed.
type writer struct {
	tx     *engine.Tx
	rec    engine.Record
	logged bool
	grown  int64 // members added minus members removed

	looked  bool // ranks and pops have been looked up
	asked   bool // askWhole was called, or need not be
	ranks   *ranks
	pops    *pops
	popping *popRun // the run from which members are being popped
}

func (w *writer) log() {
	if !w.logged {
		w.tx.LogData(cf.LogZSet)
		w.logged = true
	}
}

// put adds a member, or with had changes its score from old, which must differ from score.
func (w *writer) put(member []byte, had bool, old, score float64) {
	w.log()
	tx, rec := w.tx, &w.rec
	if had {
		key := tx.ScoreKey(rec, old, member)
		tx.Delete(cf.ZSetScore, key)
		w.moved(key, -1)
	} else {
		w.grown++
	}
	if score == 0 {
		score = 0 // stores -0 as 0
	}
	var value [cf.ScoreLen]byte
	tx.PutSubkey(rec, cf.Default, tx.Subkey(rec, member), cf.AppendDouble(value[:0], score))
	key := tx.ScoreKey(rec, score, member)
	tx.PutSubkey(rec, cf.ZSetScore, key, nil)
	tx.KeyAdded(rec, tx.SubkeyPrefix(rec), key)
	w.moved(key, 1)
}

// deleteScore deletes a key of the zset_score family whose member is removed.
func (w *writer) deleteScore(key []byte) {
	w.tx.DeleteSubkey(cf.ZSetScore, key)
	w.moved(key, -1)
}

// moved updates the derived state of the set: a key of the zset_score family was added (1) or deleted (-1).
func (w *writer) moved(key []byte, n int) {
	if !w.looked {
		w.ranks, w.pops = engine.HaveState(w.tx, rankKind, &w.rec), engine.HaveState(w.tx, popKind, &w.rec)
		w.looked = true
	}
	if n < 0 && w.ranks == nil && !w.asked {
		w.asked = true
		w.askWhole()
	}
	if w.ranks == nil && w.pops == nil {
		return
	}
	sub := key[len(w.tx.SubkeyPrefix(&w.rec)):]
	if w.ranks != nil {
		w.ranks.changed(sub, n)
	}
	if w.pops != nil {
		w.pops.changed(sub, w.popping)
	}
}

// removeScored removes the member of a zset_score subkey.
func (w *writer) removeScored(sub []byte) {
	w.log()
	w.tx.DeleteSubkey(cf.Default, w.tx.Subkey(&w.rec, sub[cf.ScoreLen:]))
	w.deleteScore(w.tx.Subkey(&w.rec, sub))
	w.grown--
}

// done saves the metadata when the size changed.
func (w *writer) done() {
	if w.grown == 0 {
		return
	}
	w.rec.Size = uint64(max(int64(w.rec.Size)+w.grown, 0))
	w.tx.Save(&w.rec, nil)
}
