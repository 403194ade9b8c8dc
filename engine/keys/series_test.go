package keys_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/timeseries"
	"github.com/basaltdb/basalt/internal/require"
)

// TestSeriesGetsAnotherName: RENAME, MOVE, COPY and SWAPDB of time series. The labels are found under the new name, in
// its namespace, and no longer under the old one.
func TestSeriesGetsAnotherName(t *testing.T) {
	type call func(tx *engine.Tx) (bool, error)
	rename := func(from, to string) call {
		return func(tx *engine.Tx) (bool, error) { return keys.Rename(tx, []byte(from), []byte(to), false) }
	}
	moved := func(key string) call {
		return func(tx *engine.Tx) (bool, error) { return keys.Move(tx, []byte(key), "ns2") }
	}
	copied := func(from, to string) call {
		return func(tx *engine.Tx) (bool, error) { return keys.Copy(tx, []byte(from), []byte(to), true) }
	}
	// "plain" and "other" have labels. "source" has a rule for "target"; "dead" has one for a key that is gone.
	const before = "dead=1 other=1 plain=3 source=2 target=1"
	for _, tt := range []struct {
		name  string
		do    call
		err   error
		here  string // time series with the label a=1, with the numbers of their samples
		there string // the same in ns2
	}{
		{"renamed", rename("plain", "new"), nil, "dead=1 new=3 other=1 source=2 target=1", ""},
		{"renamed to itself", rename("plain", "plain"), nil, before, ""},
		{"renamed over another one", rename("plain", "other"), nil, "dead=1 other=3 source=2 target=1", ""},
		{"renamed over a source", rename("plain", "source"), nil, "dead=1 other=1 source=3 target=1", ""},
		{"renamed, a rule without a target", rename("dead", "alive"), nil, "alive=1 other=1 plain=3 source=2 target=1", ""},
		{"renamed, a source", rename("source", "new"), keys.ErrRuled, before, ""},
		{"renamed, a target", rename("target", "new"), keys.ErrRuled, before, ""},
		{"moved", moved("plain"), nil, "dead=1 other=1 source=2 target=1", "plain=3"},
		{"moved, a source", moved("source"), keys.ErrRuled, before, ""},
		{"copied", copied("plain", "new"), nil, "dead=1 new=3 other=1 plain=3 source=2 target=1", ""},
		{"copied, a source", copied("source", "new"), nil, "dead=1 new=2 other=1 plain=3 source=2 target=1", ""},
		{"copied, a target", copied("target", "other"), nil, "dead=1 other=1 plain=3 source=2 target=1", ""},
		{"copied to another namespace", func(tx *engine.Tx) (bool, error) {
			return keys.CopyTo(tx, []byte("plain"), "ns2", []byte("new"), false)
		}, nil, before, "new=3"},
		{"exchanged", func(tx *engine.Tx) (bool, error) {
			return true, keys.Swap(tx, ns, "ns2", 1<<20, nil)
		}, nil, "", before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.Open(t)
			makeSeries(t, db)
			err := db.Update(ns, nil, func(tx *engine.Tx) error {
				require.NoError(t, tx.AcquireAll())
				ok, err := tt.do(tx)
				if ok != (err == nil) {
					t.Errorf("done %v, %v", ok, err)
				}
				return err
			})
			if !errors.Is(err, tt.err) {
				t.Fatalf("%v, want %v", err, tt.err)
			}
			for _, compacted := range []bool{false, true} {
				if compacted {
					require.NoError(t, db.CompactNamespace(""))
				}
				if here, there := labelled(t, db, ns), labelled(t, db, "ns2"); here != tt.here || there != tt.there {
					t.Errorf("compacted %t: %q and %q, want %q and %q", compacted, here, there, tt.here, tt.there)
				}
			}
			// The rule goes on wherever its two ends still are.
			in := ns
			if tt.name == "exchanged" {
				in = "ns2"
			}
			if want := map[bool]string{false: "source>target", true: ""}[strings.Contains(tt.name, "over a source")]; rules(t,
				db, in) != want {
				t.Errorf("rules %q, want %q", rules(t, db, in), want)
			}
		})
	}
}

// makeSeries makes the time series of TestSeriesGetsAnotherName, each with the label a=1.
func makeSeries(t *testing.T, db *engine.DB) {
	t.Helper()
	require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
		require.NoError(t, tx.AcquireAll())
		lock := func([]byte) error { return nil }
		for _, s := range []struct {
			key     string
			samples int
		}{{"plain", 3}, {"other", 1}, {"source", 0}, {"target", 0}, {"dead", 1}, {"gone", 0}} {
			series, err := timeseries.Create(tx, []byte(s.key), &timeseries.Options{ChunkSize: 2,
				Labels: []timeseries.Label{{Name: []byte("a"), Value: []byte("1")}}})
			if err != nil {
				return err
			}
			for ts := range s.samples {
				if _, err := series.Add([]cf.Sample{{Timestamp: uint64(ts)}}, timeseries.Block, lock); err != nil {
					return err
				}
			}
		}
		for source, target := range map[string]string{"source": "target", "dead": "gone"} {
			if err := timeseries.CreateRule(tx, []byte(source), []byte(target),
				timeseries.Aggregation{Function: cf.AggSum, Bucket: 10}); err != nil {
				return err
			}
		}
		if _, err := keys.Del(tx, []byte("gone")); err != nil {
			return err
		}
		series, err := timeseries.Open(tx, []byte("source"))
		if err != nil {
			return err
		}
		_, err = series.Add([]cf.Sample{{Timestamp: 5}, {Timestamp: 15}}, timeseries.Block, lock)
		return err
	}))
}

// labelled returns the time series of a namespace with the label a=1, and how many samples each has.
func labelled(t *testing.T, db *engine.DB, ns string) string {
	t.Helper()
	var all []string
	var filter timeseries.Filter
	require.NoError(t, filter.Add([]byte("a=1")))
	require.NoError(t, db.View(ns, nil, func(tx *engine.Tx) error {
		return timeseries.Find(tx, &filter, func(s *timeseries.Series, labels []timeseries.Label) error {
			n := 0
			err := s.Range(&timeseries.Range{To: 100}, func(cf.Sample) bool { n++; return true })
			all = append(all, fmt.Sprintf("%s=%d", s.Key(), n))
			return err
		})
	}))
	return strings.Join(all, " ")
}

// rules returns the rules of all time series of a namespace that count.
func rules(t *testing.T, db *engine.DB, ns string) string {
	t.Helper()
	var all []string
	require.NoError(t, db.View(ns, nil, func(tx *engine.Tx) error {
		for _, key := range []string{"plain", "other", "source", "target", "dead", "alive", "new"} {
			s, err := timeseries.Peek(tx, []byte(key))
			if errors.Is(err, timeseries.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			live, err := s.Rules()
			if err != nil {
				return err
			}
			for _, r := range live {
				all = append(all, key+">"+string(r.Target))
			}
		}
		return nil
	}))
	slices.Sort(all)
	return strings.Join(all, " ")
}
