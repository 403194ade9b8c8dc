package keys

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/timeseries"
)

// Other records refer to a time series by its name: the entries of its labels in the index, the rule of the time series
// from which it is aggregated, and the metadata of those that are aggregated from it. A copy gets entries of its own.
// The entries of a key that is gone are garbage, see [compaction.IndexVerdict]. Rules would change other keys, whose
// locks the transaction does not have, so a time series with rules keeps its name, and a copy has none.

// ErrRuled is the error for a time series that cannot get another name.
var ErrRuled = engine.NewError("ERR", "a time series with compaction rules can be neither renamed nor moved")

// copyable returns an error if a key cannot be copied. It completes the record of a time series.
func copyable(tx *engine.Tx, rec *engine.Record) error {
	switch {
	case !rec.Exists:
		return nil
	case !rec.Type.Known():
		return ErrBound
	case rec.Type == cf.TypeTimeSeries:
		return tx.LoadRest(rec)
	}
	return nil
}

// movable returns an error if a key can get no other name. It completes the record of a time series.
func movable(tx *engine.Tx, rec *engine.Record) error {
	if err := copyable(tx, rec); err != nil || !rec.Exists || rec.Type != cf.TypeTimeSeries {
		return err
	}
	s, err := timeseries.Open(tx, tx.UserKey(rec))
	if err != nil {
		return err
	}
	rules, err := s.Rules()
	if err != nil {
		return err
	}
	source, _, err := s.Source()
	if err == nil && (len(rules) > 0 || source != nil) {
		err = ErrRuled
	}
	return err
}

// saveWithoutSource writes the metadata record of a time series that is aggregated from no other one.
func saveWithoutSource(tx *engine.Tx, rec *engine.Record, tail []byte) error {
	m, err := cf.DecodeSeriesMeta(tail)
	if err != nil {
		return err
	}
	m.Source = nil
	tx.SaveAppend(rec, m.Append(nil))
	return nil
}

// followSeries writes the entry in the index of a label that is copied to the key to of the transaction's namespace.
// It reports whether the subkey is to be copied: all are, except rules unless rules is true.
func followSeries(tx *engine.Tx, to, sub, value []byte, rules bool) (keep bool, err error) {
	part, label, err := cf.SplitSeriesSub(sub)
	if err != nil {
		return false, err
	}
	switch part {
	case cf.SeriesRule:
		return rules, nil
	case cf.SeriesLabel:
		if err := tx.DB().NeedIndex(); err != nil {
			return false, err
		}
		tx.Put(cf.Index, append(cf.AppendIndexPrefix(nil, tx.Namespace(), label, value), to...), nil)
	}
	return true, nil
}
