package stream_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var raw = enginetest.Bytes

var key = []byte("s")

func update(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{key}, f))
}

func view(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{key}, f))
}

// id reads an id.
func id(t testing.TB, text string) stream.ID {
	t.Helper()
	id, err := stream.ParseID([]byte(text), 0)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return id
}

func ids(t testing.TB, text string) (list []stream.ID) {
	t.Helper()
	for _, w := range strings.Fields(text) {
		list = append(list, id(t, w))
	}
	return list
}

func text(list ...stream.ID) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = string(stream.AppendID(nil, x))
	}
	return strings.Join(words, " ")
}

// add adds entries with the field f and the id as its value.
func add(t testing.TB, db *engine.DB, idText string) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		for _, w := range strings.Fields(idText) {
			o := stream.AddOptions{NewID: stream.NewID{ID: id(t, w)}}
			if _, _, err := stream.Add(tx, key, raw("f", w), &o); err != nil {
				return err
			}
		}
		return nil
	})
}

// readNew hands out new entries to a consumer.
func readNew(g *stream.Group, consumer string, count uint64, noAck bool, f func(e *stream.Entry)) error {
	o := stream.ReadOptions{Count: count, NoAck: noAck}
	_, err := g.Read([]byte(consumer), &o, func() {}, func(e *stream.Entry, _ stream.Delivered) bool {
		f(e)
		return true
	})
	return err
}

// entries returns the ids of all entries.
func entries(t testing.TB, db *engine.DB) string {
	t.Helper()
	var list []stream.ID
	view(t, db, func(tx *engine.Tx) error {
		return stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID},
			func(e *stream.Entry) { list = append(list, e.ID) })
	})
	return text(list...)
}

// drop deletes the stream.
func drop(t testing.TB, db *engine.DB) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeStream)
		if err == nil && rec.Exists {
			tx.Drop(&rec)
		}
		return err
	})
}
