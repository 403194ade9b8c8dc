package stream_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// idempotenceModel is what a stream must know of its producers.
type idempotenceModel struct {
	queues map[string][]modelIID
	about  stream.Idempotence
}

type modelIID struct {
	iid string
	id  stream.ID
}

// forget leaves the iids of a producer that the stream knows at a time.
func (m *idempotenceModel) forget(producer string, clock int64) {
	m.queues[producer] = slices.DeleteFunc(m.queues[producer], func(x modelIID) bool {
		return int64(x.id.Ms) <= clock-1000*int64(m.about.Duration)
	})
}

func (m *idempotenceModel) find(producer, iid string) (stream.ID, bool) {
	for _, x := range m.queues[producer] {
		if x.iid == iid {
			return x.id, true
		}
	}
	return stream.ID{}, false
}

func (m *idempotenceModel) add(producer, iid string, id stream.ID) {
	q := m.queues[producer]
	if uint64(len(q)) >= m.about.MaxSize {
		q = q[1:]
	}
	m.queues[producer] = append(q, modelIID{iid, id})
	m.about.Added++
}

// produce adds an entry with an iid, and with an id if that is not 0-0, as a master does.
func produce(tx *engine.Tx, producer, iid string, given stream.ID) (id stream.ID, dup bool, err error) {
	o := stream.AddOptions{NewID: stream.NewID{ID: given}, Producer: []byte(producer), IID: []byte(iid)}
	if given == (stream.ID{}) {
		o.Auto = stream.AutoID
	}
	id, _, err = stream.Add(tx, key, raw("f", iid), &o)
	return id, o.Duplicate, err
}

// idempotenceRecords counts the records of producers, iids and queues.
func idempotenceRecords(tx *engine.Tx) (n map[cf.StreamKind]int, err error) {
	rec, err := tx.Load(key, cf.TypeStream)
	if err != nil {
		return nil, err
	}
	prefix := bytes.Clone(tx.SubkeyPrefix(&rec))
	it := tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix,
		Lower: cf.AppendStreamKindSub(slices.Clone(prefix), cf.StreamProducer)})
	defer it.Close()
	n = map[cf.StreamKind]int{}
	for it.Next() {
		sub, err := cf.ParseStreamSub(it.Key())
		if err != nil {
			return nil, err
		}
		n[sub.Kind]++
	}
	return n, it.Err()
}

// TestIdempotence adds entries with iids at random, with changes of the settings in between.
func TestIdempotence(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			r := rand.New(rand.NewPCG(seed, 3))
			m := &idempotenceModel{queues: map[string][]modelIID{}}
			m.about.Duration, m.about.MaxSize = 100, 100
			clock := time.Now().Add(time.Hour).UnixMilli()
			duplicates := 0
			for range 1000 {
				clock += r.Int64N(200)
				producer, iid := fmt.Sprint("p", r.IntN(6)), fmt.Sprint(r.IntN(8))
				update(t, db, func(tx *engine.Tx) error {
					tx.Tick(clock)
					m.forget(producer, clock)
					if r.IntN(100) == 0 && m.about.Added > 0 {
						duration, size := 1+r.Uint64N(3), 1+r.Uint64N(6)
						if r.IntN(3) == 0 {
							duration, size = m.about.Duration, 0
						} else if duration != m.about.Duration || size != m.about.MaxSize {
							m.about.Duration, m.about.MaxSize = duration, size
							clear(m.queues)
						}
						_, err := stream.SetIdempotence(tx, key, duration, size)
						return err
					}
					var given stream.ID
					if r.IntN(50) == 0 {
						given.Ms = uint64(clock + 1)
					}
					want, known := m.find(producer, iid)
					known = known && given.Ms == 0
					id, dup, err := produce(tx, producer, iid, given)
					switch {
					case err != nil && given.Ms > 0: // the last entry is as new
						return nil
					case err != nil || dup != known || dup && id != want:
						t.Fatalf("%s %s: %s %v %v, want %s %v", producer, iid, text(id), dup, err, text(want), known)
					case dup:
						duplicates++
						m.about.Duplicates++
					case given.Ms > 0: // the iid may be in the queue twice: the next ones tell nothing of what must be
						_, err = stream.SetIdempotence(tx, key, m.about.Duration+1, 0)
						m.about.Duration++
						m.about.Added++
						clear(m.queues)
					default:
						m.add(producer, iid, id)
					}
					return err
				})
				view(t, db, func(tx *engine.Tx) error {
					tx.Tick(clock)
					m.about.Producers, m.about.IIDs = 0, 0
					for producer := range m.queues {
						m.forget(producer, clock)
						if n := len(m.queues[producer]); n > 0 {
							m.about.Producers++
							m.about.IIDs += uint64(n)
						}
					}
					got, _, err := stream.AboutIdempotence(tx, key)
					if err == nil && got != m.about {
						t.Fatalf("%+v, want %+v", got, m.about)
					}
					n, err := idempotenceRecords(tx)
					if n[cf.StreamIID] != n[cf.StreamQueued] || n[cf.StreamProducer] > 6 {
						t.Fatalf("records: %v", n)
					}
					return err
				})
			}
			if duplicates < 60 {
				t.Errorf("only %d duplicates", duplicates)
			}
		})
	}
}

// TestProducersGoAway: the records of producers that do not come again are removed. One that has many iids is removed
// in several steps.
func TestProducersGoAway(t *testing.T) {
	db := enginetest.Open(t)
	clock := time.Now().Add(time.Hour).UnixMilli()
	step := func(producer, iid string) (n map[cf.StreamKind]int) {
		update(t, db, func(tx *engine.Tx) error {
			tx.Tick(clock)
			if _, _, err := produce(tx, producer, iid, stream.ID{}); err != nil {
				return err
			}
			var err error
			n, err = idempotenceRecords(tx)
			return err
		})
		return n
	}
	step("large", "0")
	update(t, db, func(tx *engine.Tx) error {
		_, err := stream.SetIdempotence(tx, key, 10, 1000)
		return err
	})
	for i := range 1000 {
		step("large", fmt.Sprint(i))
	}
	iids, begun := 1000, 0
	for i := range 400 {
		clock += 1000
		n := step(fmt.Sprint(1000000-i*7919%1000), "x")
		if n[cf.StreamIID] < iids-300 {
			t.Fatalf("%d iids removed at once", iids-n[cf.StreamIID])
		}
		if iids = n[cf.StreamIID]; begun == 0 && iids < 900 {
			begun = i
		}
		if begun > 0 && i >= begun+4 && iids > 100 {
			t.Fatalf("%d iids left after %d steps", iids, i-begun)
		}
		// Ten producers are known. Each new one looks at four others.
		if i > 40 && (n[cf.StreamProducer] > 16 || n[cf.StreamIID] > 16 || n[cf.StreamQueued] > 16) {
			t.Fatalf("records after %d producers: %v", i, n)
		}
	}
}

// TestContentIID: the iid of an entry is that of its pairs in any order, and of no other ones.
func TestContentIID(t *testing.T) {
	one := stream.ContentIID(raw("a", "1", "b", "2", "b", "2"))
	for _, c := range []struct {
		fields [][]byte
		same   bool
	}{
		{raw("b", "2", "a", "1", "b", "2"), true},
		{raw("a", "1", "b", "2"), false},
		{raw("a", "1"), false},
		{raw("a", "2", "b", "1", "b", "2"), false},
		{raw("a1", "", "b", "2", "b", "2"), false},
		{raw("", "a1", "b", "2", "b", "2"), false},
		{raw("1", "a", "2", "b", "2", "b"), false},
	} {
		if got := stream.ContentIID(c.fields); bytes.Equal(got, one) != c.same || len(got) != 16 {
			t.Errorf("%q: %x, and %x of the first", c.fields, got, one)
		}
	}
}
