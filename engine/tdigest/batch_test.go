package tdigest_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/tdigest"
	"github.com/basaltdb/basalt/internal/require"
)

// line describes a record: of subkeys what follows the version, of metadata what changes.
func line(t testing.TB, rec *batch.Record) string {
	t.Helper()
	switch {
	case rec.Kind == batch.LogData:
		return fmt.Sprintf("log %s", rec.Value)
	case rec.Family == cf.Metadata:
		m, tail, err := cf.DecodeMeta(rec.Value)
		if err != nil || m.Size != 0 || m.Type != cf.TypeTDigest {
			t.Fatalf("%+v, %v", m, err)
		}
		d, err := cf.DecodeTDigestMeta(tail)
		require.NoError(t, err)
		return fmt.Sprintf("meta unmerged %d merged %d weight %d/%d observations %d merges %d", d.Unmerged, d.Merged,
			d.MergedWeight, d.TotalWeight, d.Observations, d.Merges)
	}
	sub, err := cf.ParseSubkey(rec.Key, false)
	if err != nil || rec.Family != cf.Default {
		t.Fatalf("%+v, %v", rec, err)
	}
	if rec.Kind == batch.Delete {
		return "delete " + hex.EncodeToString(sub.Sub)
	}
	return fmt.Sprintf("put %x = %x", sub.Sub, rec.Value)
}

// TestBatches compares the records of each write with those that Kvrocks writes (redis_tdigest.cc), in its order.
// TDIGEST.RESET is different: Kvrocks deletes the range of the records, here the version changes.
func TestBatches(t *testing.T) {
	const (
		one, two, three = "bff0000000000000", "c000000000000000", "c008000000000000" // 1, 2 and 3
		empty           = "meta unmerged 0 merged 0 weight 0/0 observations 0 merges 0"
	)
	key := []byte("d")
	// small has room for no observation in its buffer.
	small := func(tx *engine.Tx) error {
		if err := tdigest.Create(tx, key, 100); err != nil {
			return err
		}
		rec, err := tx.Load(key, cf.TypeTDigest)
		m := cf.NewTDigestMeta(100, 0)
		tx.Save(&rec, m.Append(nil))
		return err
	}
	then := func(fs ...func(tx *engine.Tx) error) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			for _, f := range fs {
				if err := f(tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"create", nil, create(key, 100), []string{"log 12", empty}},
		{"add", create(key, 100), adding(key, 1, 2), []string{"log 12", "put 00 = " + one + two,
			"meta unmerged 2 merged 0 weight 0/2 observations 2 merges 0"}},
		{"add more", then(create(key, 100), adding(key, 1, 2)), adding(key, 3),
			[]string{"log 12", "put 00 = " + one + two + three, "meta unmerged 3 merged 0 weight 0/3 observations 3 merges 0"}},
		{"merge", small, adding(key, 2, 1), []string{"log 12", "delete 00", "put 01" + one + "00000000 = " + one,
			"put 01" + two + "00000001 = " + one,
			"meta unmerged 0 merged 2 weight 2/2 observations 2 merges 1"}},
		{"merge again", then(small, adding(key, 2)), adding(key, 2), []string{"log 12", "delete 00", "delete 01" +
			two + "00000000",
			"put 01" + two + "00000000 = " + one, "put 01" + two + "00000001 = " +
				one, "meta unmerged 0 merged 2 weight 2/2 observations 2 merges 2"}},
		{"reset", then(create(key, 100), adding(key, 1, 2)), func(tx *engine.Tx) error {
			d, err := tdigest.Open(tx, key)
			d.Reset()
			return err
		}, []string{"log 12", empty}},
		{"two commands", create(key, 100), then(adding(key, 1), adding(key, 2)), // the metadata is written once
			[]string{"log 12", "put 00 = " + one, "meta unmerged 2 merged 0 weight 0/2 observations 2 merges 0",
				"log 12", "put 00 = " + one + two}},
		{"MERGE", then(create(key, 100), adding(key, 1, 3)), func(tx *engine.Tx) error {
			return tdigest.Merge(tx, []byte("other"), [][]byte{key}, tdigest.MergeOptions{})
		}, []string{"log 12", "put 01" + one + "00000000 = " + one, "put 01" + three + "00000001 = " +
			one, "meta unmerged 0 merged 2 weight 2/2 observations 2 merges 1"}},
		{"reading", then(create(key, 100), adding(key, 1, 2)), func(tx *engine.Tx) error {
			d, err := tdigest.Open(tx, key)
			if err == nil {
				_, err = d.Sketch()
			}
			return err
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), [][]byte{key, []byte("other")}, c.before, c.f,
				enginetest.Each(line), c.want)
		})
	}
}
