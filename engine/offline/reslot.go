package offline

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

// In a cluster, the keys of a database contain their slots; otherwise they do not (see package cf). Nothing in the
// files says which form they have. So a database that moves into or out of a cluster must be rewritten.
//
//	plain       namespace | user key                  namespace | length | user key | version | element
//	slots       namespace | slot | user key           namespace | slot | length | user key | version | element

// ReslotOptions say what to convert.
type ReslotOptions struct {
	Options
	// From is a database that no server has open, or a backup.
	From string
	// To is the new database. Until it is complete, its name has the suffix ".part".
	To string
	// Slots says that the keys of To contain their slots and those of From do not; false = the other way round.
	Slots bool
	// Namespace is the namespace to convert, "" = the default one. It becomes the default namespace, because a cluster
	// has no other.
	Namespace string
	// Merge adds to an existing database, to combine several shards.
	Merge bool
}

// ReslotReport describes what was done.
type ReslotReport struct {
	Keys     int64   `json:"keys"`
	Records  int64   `json:"records"`
	Bytes    int64   `json:"bytes"`
	Sequence uint64  `json:"sequence"` // the last write of From that To contains
	Verified int64   `json:"verified_records"`
	Skipped  int64   `json:"skipped_records"` // in other families
	Seconds  float64 `json:"seconds"`
}

// reslotMark is a file beside the new database: what it contains, and in which form.
type reslotMark struct {
	Sequence uint64 `json:"sequence"`
	Slots    bool   `json:"slots"`
}

const (
	reslotSuffix = ".reslot"
	partSuffix   = ".part"
	reslotBatch  = 1 << 20
	// reslotMargin: keys and fields that expire within it are not compared, because compactions may drop them
	// meanwhile.
	reslotMargin = time.Hour
)

var (
	errOtherNamespaces = errors.New("there are keys of other namespaces, and a cluster has none: " +
		"name the one to convert, one for each cluster")
	errForm = errors.New("the keys of the database have that form already")
)

// Reslot rewrites a database with keys of the other form and then compares the two. It does not change From.
func Reslot(ctx context.Context, o ReslotOptions) (*ReslotReport, error) {
	o.fill()
	began := o.Now()
	from, err := openForm(o.From, !o.Slots)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if err := checkNamespaces(from, &o); err != nil {
		return nil, err
	}
	dir := o.To
	if !o.Merge {
		if _, err := os.Stat(o.To); err == nil {
			return nil, fmt.Errorf("%s exists", o.To)
		}
		dir = o.To + partSuffix
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	w, err := newReslotWriter(dir, &o)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.copy(ctx, from); err != nil {
		return nil, err
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	r := &w.report
	r.Sequence = from.Sequence()
	if r.Verified, err = verifyReslot(ctx, from, dir, &o); err != nil {
		return nil, err
	}
	if !o.Merge {
		if err := writeMark(o.To, reslotMark{r.Sequence, o.Slots}); err != nil {
			return nil, err
		}
		if err := os.Rename(dir, o.To); err != nil {
			return nil, err
		}
	}
	r.Seconds = o.Now().Sub(began).Seconds()
	return r, nil
}

// openForm opens a database whose keys must have the given form.
func openForm(dir string, slots bool) (*engine.ReadOnly, error) {
	r, err := engine.OpenReadOnly(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Logs().Loss != nil:
		err = fmt.Errorf("%s: the log is damaged: see basalt check", dir)
	case r.Slots() != slots && r.Records(cf.Metadata) > 0:
		err = fmt.Errorf("%s: %w", dir, errForm)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// checkNamespaces returns an error if the conversion would silently omit keys of other namespaces.
func checkNamespaces(r *engine.ReadOnly, o *ReslotOptions) error {
	if o.Namespace != "" {
		return nil
	}
	prefix := cf.AppendNSPrefix(nil, cf.DefaultNamespace)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	for _, part := range []engine.CursorOptions{{Upper: prefix}, {Lower: upper}} {
		c := r.Cursor(cf.Metadata, part)
		some := c.Next()
		c.Close()
		if some {
			return errOtherNamespaces
		}
	}
	return nil
}

// reslotter converts keys.
type reslotter struct {
	from, to string // namespaces
	slots    bool   // the new form
}

func (o *ReslotOptions) reslotter() reslotter {
	k := reslotter{cf.DefaultNamespace, cf.DefaultNamespace, o.Slots}
	if o.Namespace != "" {
		k.from = o.Namespace
	}
	return k
}

// key appends a key of a family in the new form; ok is false for a key of another namespace.
func (k *reslotter) key(id cf.ID, dst, key []byte) (_ []byte, ok bool, err error) {
	if id == cf.Metadata {
		return k.meta(dst, key)
	}
	return k.sub(dst, key)
}

func (k *reslotter) meta(dst, key []byte) (_ []byte, ok bool, err error) {
	ns, name, err := cf.SplitNSKey(key, !k.slots)
	if err != nil || string(ns) != k.from {
		return dst, false, err
	}
	return cf.AppendNSKey(dst, k.to, name, k.slots), true, nil
}

func (k *reslotter) sub(dst, key []byte) (_ []byte, ok bool, err error) {
	s, err := cf.ParseSubkey(key, !k.slots)
	if err != nil || string(s.Namespace) != k.from {
		return dst, false, err
	}
	nsKey := cf.AppendNSKey(nil, k.to, s.UserKey, k.slots)
	return append(cf.AppendSubkeyPrefix(dst, nsKey, k.slots, s.Version), s.Sub...), true, nil
}

// elementFamilies are the families of elements.
var elementFamilies = []cf.ID{cf.Default, cf.ZSetScore, cf.Stream}

// walkLive calls f for the records of all keys of a namespace that are live at the time now; now 0 = of all non-empty
// keys.
func walkLive(ctx context.Context, r *engine.ReadOnly, ns string, slots bool, now int64,
	f func(id cf.ID, key, value []byte) error) error {
	prefix := cf.AppendNSPrefix(nil, ns)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	var damage error
	damaged := func(from, to []byte, err error) {
		damage = fmt.Errorf("keys cannot be read, see basalt check: %w", err)
	}
	keys := r.Cursor(cf.Metadata, engine.CursorOptions{Lower: prefix, Upper: upper, Damaged: damaged})
	defer keys.Close()
	for damage == nil && keys.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, tail, err := cf.DecodeMeta(keys.Value())
		if err != nil {
			return err
		}
		if !m.Live(now) {
			continue
		}
		if err := f(cf.Metadata, keys.Key(), keys.Value()); err != nil {
			return err
		}
		if m.Type.SingleRecord() {
			continue
		}
		fields := m.Type == cf.TypeHash && len(tail) > 0
		elements := cf.AppendSubkeyPrefix(nil, keys.Key(), slots, m.Version)
		end, _ := cf.AppendSuccessor(nil, elements)
		for _, id := range elementFamilies {
			if (id == cf.Stream) != (m.Type == cf.TypeStream) || id == cf.ZSetScore && m.Type != cf.TypeZSet {
				continue
			}
			c := r.Cursor(id, engine.CursorOptions{Lower: elements, Upper: end, Damaged: damaged})
			for err == nil && c.Next() {
				if fields && now > 0 {
					if at, _, err := cf.DecodeHashValue(c.Value()); err == nil && cf.FieldExpired(at, now) {
						continue
					}
				}
				err = f(id, c.Key(), c.Value())
			}
			c.Close()
			if err != nil {
				return err
			}
		}
	}
	return damage
}

// reslotWriter writes the new database.
type reslotWriter struct {
	o      *ReslotOptions
	keys   reslotter
	db     *engine.DB
	have   *engine.ReadOnly // the previous content, with Merge
	batch  batch.Builder
	buf    []byte
	report ReslotReport
}

func newReslotWriter(dir string, o *ReslotOptions) (*reslotWriter, error) {
	db, err := engine.Open(engine.Options{Dir: dir, Slots: o.Slots, DisableWAL: !o.Merge})
	if err != nil {
		return nil, err
	}
	w := &reslotWriter{o: o, keys: o.reslotter(), db: db}
	if o.Merge {
		w.have = db.ReadOnly()
	}
	return w, nil
}

func (w *reslotWriter) close() {
	if w.have != nil {
		w.have.Close()
	}
	if w.db != nil {
		w.db.CloseUncounted()
	}
}

// reslotRecords returns how many records a database has that are converted.
func reslotRecords(r *engine.ReadOnly) (n int64) {
	for _, id := range append(elementFamilies, cf.Metadata) {
		n += r.Records(id)
	}
	return n
}

func (w *reslotWriter) copy(ctx context.Context, from *engine.ReadOnly) error {
	advance := w.o.Phase("converting", reslotRecords(from), false)
	err := walkLive(ctx, from, w.keys.from, !w.o.Slots, 0, func(id cf.ID, key, value []byte) (err error) {
		advance(1)
		return w.put(id, key, value)
	})
	if err != nil {
		return err
	}
	return w.propagate(from)
}

// put writes a record of From.
func (w *reslotWriter) put(id cf.ID, key, value []byte) (err error) {
	if w.buf, _, err = w.keys.key(id, w.buf[:0], key); err != nil {
		return err
	}
	if id == cf.Metadata {
		w.report.Keys++
		if w.have != nil {
			if _, found, err := w.have.Get(id, w.buf, nil); err != nil || found {
				return errors.Join(err, fmt.Errorf("%s has the key %q already", w.o.To, key))
			}
		}
	}
	w.batch.Put(id, w.buf, value)
	w.report.Records++
	w.report.Bytes += int64(len(key) + len(value))
	return w.flush(reslotBatch)
}

// flush writes the batch if it has at least from bytes.
func (w *reslotWriter) flush(from int) error {
	if w.batch.Count() == 0 || w.batch.Len() < from {
		return nil
	}
	err := w.db.WriteUncounted(w.batch.Bytes())
	w.batch.Reset()
	return err
}

// carried reports whether a record of the propagate family belongs in the new database: scripts, libraries, the bit
// order. Replication ids, masters and namespace tokens do not.
func carried(key []byte) bool {
	return slices.ContainsFunc([]string{cf.PropagateScript, cf.PropagateLibrary, cf.PropagateFunction,
		cf.PropagateBitOrder}, func(prefix string) bool { return bytes.HasPrefix(key, []byte(prefix)) })
}

func (w *reslotWriter) propagate(from *engine.ReadOnly) error {
	c := from.Cursor(cf.Propagate, engine.CursorOptions{})
	defer c.Close()
	for c.Next() {
		if !carried(c.Key()) {
			w.report.Skipped++
			continue
		}
		w.batch.Put(cf.Propagate, c.Key(), c.Value())
		w.report.Records++
		if err := w.flush(reslotBatch); err != nil {
			return err
		}
	}
	search := from.Cursor(cf.Search, engine.CursorOptions{ValueMax: 1})
	defer search.Close()
	for search.Next() {
		w.report.Skipped++
	}
	return nil
}

// finish syncs everything and closes the database.
func (w *reslotWriter) finish() error {
	if err := w.flush(0); err != nil {
		return err
	}
	for id := range cf.NumFamilies {
		if err := w.db.FlushMemtable(id); err != nil {
			return err
		}
	}
	if w.have != nil {
		w.have.Close()
		w.have = nil
	}
	db := w.db
	w.db = nil
	return db.CloseUncounted()
}

// digest is an order-independent checksum of records.
type digest struct {
	n, a, b int64
}

// verifyReslot compares the records of From with those of the new database. It reads both once.
func verifyReslot(ctx context.Context, from *engine.ReadOnly, to string, o *ReslotOptions) (int64, error) {
	r, err := openForm(to, o.Slots)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	now := o.Now().Add(reslotMargin).UnixMilli()
	keys := o.reslotter()
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	sum := func(d *digest, sign int64, id cf.ID, key, value []byte) {
		var h [2]maphash.Hash
		for i := range h {
			h[i].SetSeed(seeds[i])
			h[i].WriteByte(byte(id))
			var n [8]byte
			binary.LittleEndian.PutUint64(n[:], uint64(len(key)))
			h[i].Write(n[:])
			h[i].Write(key)
			h[i].Write(value)
		}
		d.n += sign
		d.a += sign * int64(h[0].Sum64())
		d.b += sign * int64(h[1].Sum64())
	}
	var d digest
	var records int64
	advance := o.Phase("verifying", 2*reslotRecords(from), false)
	var buf []byte
	err = walkLive(ctx, from, keys.from, !o.Slots, now, func(id cf.ID, key, value []byte) (err error) {
		buf, _, err = keys.key(id, buf[:0], key)
		sum(&d, 1, id, buf, value)
		records++
		advance(1)
		return err
	})
	if err != nil {
		return 0, err
	}
	if o.Merge { // To has other records too: each record of From is looked up
		return records, verifyEach(ctx, from, r, keys, now)
	}
	err = walkLive(ctx, r, cf.DefaultNamespace, o.Slots, now, func(id cf.ID, key, value []byte) error {
		sum(&d, -1, id, key, value)
		advance(1)
		return nil
	})
	if err == nil && d != (digest{}) {
		err = fmt.Errorf("%s does not hold what %s holds: %d records differ in number", to, from.Dir(), d.n)
	}
	return records, err
}

func verifyEach(ctx context.Context, from, to *engine.ReadOnly, keys reslotter, now int64) error {
	var buf, got []byte
	return walkLive(ctx, from, keys.from, !keys.slots, now, func(id cf.ID, key, value []byte) (err error) {
		if buf, _, err = keys.key(id, buf[:0], key); err != nil {
			return err
		}
		var found bool
		if got, found, err = to.Get(id, buf, got[:0]); err == nil && (!found || !bytes.Equal(got, value)) {
			err = fmt.Errorf("record %x of %s did not arrive", key, id)
		}
		return err
	})
}

func writeMark(to string, m reslotMark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(to+reslotSuffix, append(text, '\n'), 0o644)
}

func readMark(to string) (m reslotMark, err error) {
	text, err := os.ReadFile(to + reslotSuffix)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		err = fmt.Errorf("it is not known what %s was made of: %w", filepath.Base(to), err)
	}
	return m, err
}

// ReslotOn adds to To what was written to From since Reslot read it, or read the backup of it. From's log must still
// contain all those writes. To must not have been used meanwhile.
func ReslotOn(ctx context.Context, o ReslotOptions) (*ReslotReport, error) {
	o.fill()
	began := o.Now()
	mark, err := readMark(o.To)
	if err != nil {
		return nil, err
	}
	if mark.Slots != o.Slots {
		return nil, errForm
	}
	from, err := engine.Open(engine.Options{Dir: o.From, Slots: !o.Slots})
	if err != nil {
		return nil, err
	}
	report, err := reslotOn(ctx, from, mark, &o)
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	if err := writeMark(o.To, reslotMark{report.Sequence, o.Slots}); err != nil {
		return nil, err
	}
	r, err := openForm(o.From, !o.Slots)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if report.Verified, err = verifyReslot(ctx, r, o.To, &o); err != nil {
		return nil, err
	}
	report.Seconds = o.Now().Sub(began).Seconds()
	return report, nil
}

func reslotOn(ctx context.Context, from *engine.DB, mark reslotMark, o *ReslotOptions) (*ReslotReport, error) {
	end := from.LatestSequence()
	if end < mark.Sequence {
		return nil, fmt.Errorf("%s holds less than what was converted: it is another database", o.From)
	}
	o.Merge = true // with a log, a crash leaves a usable database, and writing the same records again is harmless
	w, err := newReslotWriter(o.To, o)
	if err != nil {
		return nil, err
	}
	defer w.close()
	log := from.Log(mark.Sequence + 1)
	defer log.Close()
	advance := o.Phase("converting the log", int64(end-mark.Sequence), false)
	for log.Sequence() <= end {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := log.Sequence()
		rep, skip, err := log.Next()
		if err != nil {
			return nil, err
		}
		if rep == nil {
			return nil, errors.New("the log ends too early")
		}
		if err := w.log(rep, skip); err != nil {
			return nil, err
		}
		advance(int64(log.Sequence() - before))
	}
	o.Merge = false // compare everything
	w.report.Sequence = end
	return &w.report, w.finish()
}

// log writes the changes of a batch of From's log.
func (w *reslotWriter) log(rep []byte, skip int) error {
	r, err := batch.NewReader(rep)
	if err != nil {
		return err
	}
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if rec.Kind.Counted() && skip > 0 {
			skip--
			continue
		}
		if err := w.logRecord(&rec); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return w.flush(reslotBatch)
}

func (w *reslotWriter) logRecord(rec *batch.Record) error {
	propagate := rec.Family == cf.Propagate
	if !propagate && rec.Family != cf.Metadata && !slices.Contains(elementFamilies, rec.Family) {
		return nil
	}
	switch rec.Kind {
	case batch.DeleteRange:
		return w.logRange(rec)
	case batch.Put, batch.Delete, batch.SingleDelete:
	default:
		return nil
	}
	key, ours, err := rec.Key, carried(rec.Key), error(nil)
	if !propagate {
		w.buf, ours, err = w.keys.key(rec.Family, w.buf[:0], rec.Key)
		key = w.buf
	}
	switch {
	case err != nil:
		return err
	case !ours && rec.Family == cf.Metadata && rec.Kind == batch.Put && w.o.Namespace == "":
		return errOtherNamespaces
	case !ours:
		return nil
	case rec.Kind == batch.Put:
		w.batch.Put(rec.Family, key, rec.Value)
	default:
		w.batch.Delete(rec.Family, key)
	}
	w.report.Records++
	return nil
}

// logRange converts a range delete of a whole namespace, or of elements of one collection. Any other range would
// contain other keys in the new form.
func (w *reslotWriter) logRange(rec *batch.Record) error {
	prefix := cf.AppendNSPrefix(nil, w.keys.from)
	upper, _ := cf.AppendSuccessor(nil, prefix)
	switch rec.Family {
	case cf.Metadata:
		switch {
		case bytes.Compare(rec.Key, prefix) <= 0 && bytes.Compare(rec.Value, upper) >= 0:
			prefix = cf.AppendNSPrefix(nil, w.keys.to)
			upper, _ = cf.AppendSuccessor(nil, prefix)
			w.batch.DeleteRange(cf.Metadata, prefix, upper)
			return nil
		case bytes.Compare(rec.Key, upper) >= 0 || bytes.Compare(rec.Value, prefix) <= 0:
			return nil
		}
	case cf.Propagate:
		w.batch.DeleteRange(rec.Family, rec.Key, rec.Value)
		return nil
	default:
		from, ours, err := w.keys.sub(nil, rec.Key)
		to, _, err2 := w.keys.sub(nil, rec.Value)
		a, _ := cf.AppendNSKeyOf(nil, rec.Key, !w.o.Slots)
		b, _ := cf.AppendNSKeyOf(nil, rec.Value, !w.o.Slots)
		switch {
		case err == nil && !ours:
			return nil
		case err == nil && err2 == nil && bytes.Equal(a, b):
			w.batch.DeleteRange(rec.Family, from, to)
			return nil
		}
	}
	return errors.New("the log holds a deletion of a range of keys, which has no counterpart in the other form: " +
		"convert the database anew")
}
