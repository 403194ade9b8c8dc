package search

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// scan is an iterator that drives a query: it finds candidates, each of which is then checked against the whole
// condition.
type scan struct {
	field  *Field // nil = all keys of the index
	tag    []byte // of a TAG field
	lo, hi float64
	desc   bool
	near   *expr // of a VECTOR field: opRange or opNearest
}

// The costs of the scans, as Kvrocks estimates them.
const (
	costRange = 4
	costAll   = 100
	costTag   = 10
	costOne   = 5 // one number
	costOpen  = 20
)

func (s *scan) cost() int {
	switch {
	case s.field == nil:
		return costAll
	case s.near != nil:
		return costRange
	case s.field.Type == cf.SearchTag:
		return costTag
	case s.lo == s.hi:
		return costOne
	}
	c := costTag
	for _, x := range []float64{s.lo, s.hi} {
		if math.IsInf(x, 0) {
			c += costOpen
		}
	}
	return c
}

// plan says how a query is executed.
type plan struct {
	q      *Query
	ix     *Index
	where  *expr
	scans  []*scan // one after the other; a key that an earlier scan has found is skipped
	ret    []*Field
	sorted bool // the scans find the keys in the order of the query
}

// check finds the fields of a condition, and refuses what the index does not have.
func (ix *Index) check(e *expr) error {
	if e.name != "" {
		if e.field = ix.Field(e.name); e.field == nil {
			return fmt.Errorf("field `%s` not found in index `%s`", e.name, ix.Name)
		}
	}
	f := e.field
	switch e.op {
	case opTag:
		switch {
		case f.Type != cf.SearchTag:
			return fmt.Errorf("field `%s` is not a tag field", e.name)
		case e.tag == "":
			return fmt.Errorf("tag cannot be an empty string")
		case strings.IndexByte(e.tag, f.Separator) >= 0:
			return fmt.Errorf("tag cannot contain the separator `%c`", f.Separator)
		}
		e.key = f.TagKey([]byte(e.tag))
	case opCompare, opAll:
		if f != nil && f.Type != cf.SearchNumeric {
			return fmt.Errorf("field `%s` is not a numeric field", e.name)
		}
	case opRange, opNearest:
		if f.Type != cf.SearchVector {
			return fmt.Errorf("field `%s` is not a vector field", e.name)
		}
		v := &f.Vector
		switch {
		case e.op == opNearest && f.NoIndex:
			return fmt.Errorf("field `%s` is marked as NOINDEX and cannot be used for KNN search", e.name)
		case e.op == opRange && v.Metric == MetricL2 && e.num < 0:
			return errors.New("range cannot be a negative number for l2 distance metric")
		case e.op == opRange && v.Metric == MetricCosine && (e.num < 0 || e.num > 2):
			return errors.New("range has to be between 0 and 2 for cosine distance metric")
		case len(e.vec) != int(v.Dim):
			return fmt.Errorf("vector should be of size `%d` for field `%s`", v.Dim, e.name)
		case e.k > maxSorted:
			return fmt.Errorf("KNN search finds at most %d keys", maxSorted)
		}
	}
	for _, sub := range e.of {
		if err := ix.check(sub); err != nil {
			return err
		}
	}
	return nil
}

// plan checks a query and decides how it is executed.
func (r *Registry) plan(ns string, q *Query) (*plan, error) {
	ix, err := r.Find(ns, q.Index)
	if err != nil {
		return nil, reply(fmt.Errorf("index `%s` not found", q.Index))
	}
	p := &plan{q: q, ix: ix, ret: ix.Fields}
	if q.Return != nil {
		p.ret = nil
		for _, name := range q.Return {
			f := ix.Field(name)
			if f == nil {
				return nil, reply(fmt.Errorf("field `%s` not found in index `%s`", name, ix.Name))
			}
			p.ret = append(p.ret, f)
		}
	}
	err = ix.check(q.where)
	if err == nil {
		err = p.choose(r.db)
	}
	if err == nil && q.order != nil {
		err = p.sort(q.order)
	}
	return p, reply(err)
}

var errKNN = errors.New("KNN search cannot be combined with other query expressions")

// choose decides by which scans the keys are found: the nearest vectors if the query wants them, and the other
// conditions filter those; otherwise the cheapest scans that find all keys that meet the condition.
func (p *plan) choose(db *engine.DB) error {
	p.where = p.q.where
	var near *expr
	switch {
	case p.where.op == opNearest:
		near, p.where = p.where, &expr{op: opAll}
	case p.where.op == opAnd:
		if i := slices.IndexFunc(p.where.of, func(e *expr) bool { return e.op == opNearest }); i >= 0 {
			near = p.where.of[i]
			p.where = join(opAnd, slices.Delete(slices.Clone(p.where.of), i, i+1))
		}
	}
	if p.where.wantsNearest() {
		return errKNN
	}
	if near != nil {
		p.scans = []*scan{{field: near.field, near: near}}
		return nil
	}
	if p.scans = p.where.scans(); p.scans == nil || cost(p.scans) >= costAll && !p.readLess(db) {
		p.scans = []*scan{{}}
	}
	// A scan of a range of vectors may miss some, which then no earlier scan may leave to it: see accepts.
	slices.SortStableFunc(p.scans, func(a, b *scan) int {
		return cmp.Compare(btoi(a.near != nil), btoi(b.near != nil))
	})
	return nil
}

// readLess reports whether the scans of a union read fewer entries than there are keys, of which each entry costs as
// much. Their number says nothing about that: a hundred tags may be rare ones. The sizes that RocksDB estimates say
// enough, as an entry is about as long as the record of a hash. A key that has several of the tags counts for each.
func (p *plan) readLess(db *engine.DB) bool {
	var entries, keys uint64
	for _, s := range p.scans {
		if s.near != nil {
			return false
		}
		if _, lower, upper := s.entries(p.ix); bytes.Compare(lower, upper) < 0 {
			entries += db.ApproximateSize(cf.Search, lower, upper)
		}
	}
	for _, prefix := range p.ix.disjoint() {
		lower := append(cf.AppendNSPrefix(nil, p.ix.Namespace), prefix...)
		upper, _ := cf.AppendSuccessor(nil, lower)
		keys += db.ApproximateSize(cf.Metadata, lower, upper)
	}
	return entries <= keys
}

func (e *expr) wantsNearest() bool {
	return e.op == opNearest || slices.ContainsFunc(e.of, (*expr).wantsNearest)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxSorted bounds the keys that are held in memory to sort them.
const maxSorted = 1_000_000

// sort decides how the results are sorted: by the index of the field if the scan is over it anyway, if every key would
// be read, or if all results are wanted; otherwise in memory.
func (p *plan) sort(o *order) error {
	f := p.ix.Field(o.name)
	switch o.field = f; {
	case f == nil:
		return fmt.Errorf("field `%s` not found in index `%s`", o.name, p.ix.Name)
	case f.Type == cf.SearchTag:
		return fmt.Errorf("field `%s` is not sortable", o.name)
	case f.Type == cf.SearchVector && o.vec == nil:
		return fmt.Errorf("field `%s` is a vector field according to metadata and does expect a vector parameter", o.name)
	case f.Type == cf.SearchNumeric && o.vec != nil:
		return fmt.Errorf("field `%s` is not a vector field according to metadata and does not expect a vector parameter",
			o.name)
	case o.vec != nil:
		return p.sortByDistance(o)
	}
	one := p.scans[0]
	switch q := p.q; {
	case one.near != nil && one.near.op == opNearest:
	case len(p.scans) == 1 && one.field == f:
		one.desc, p.sorted = o.desc, true
	case !f.NoIndex && (q.Count < 0 || len(p.scans) == 1 && one.field == nil):
		p.scans, p.sorted = []*scan{{field: f, lo: math.Inf(-1), hi: math.Inf(1), desc: o.desc}}, true
	case q.Count < 0 || q.Count > maxSorted || q.Offset > maxSorted-q.Count:
		return fmt.Errorf("SORTBY needs a LIMIT of at most %d keys here", maxSorted)
	}
	return nil
}

// sortByDistance makes the order by a distance, which needs a LIMIT, the search of the nearest vectors.
func (p *plan) sortByDistance(o *order) error {
	near := &expr{op: opNearest, name: o.name, vec: o.vec, k: p.q.Offset + p.q.Count}
	if err := p.ix.check(near); err != nil {
		return err
	}
	switch {
	case p.q.Count < 0:
		return errors.New("expect a LIMIT clause for vector field to construct a KNN search")
	case p.where.op > opNone:
		return errKNN
	}
	p.scans, p.sorted = []*scan{{field: near.field, near: near}}, true
	return nil
}

func cost(scans []*scan) (sum int) {
	for _, s := range scans {
		sum += s.cost()
	}
	return sum
}

// scans returns the scans over indexed fields that find all keys that meet the condition, nil if none do.
func (e *expr) scans() []*scan {
	switch e.op {
	case opTag:
		if !e.field.NoIndex {
			return []*scan{{field: e.field, tag: e.key}}
		}
	case opCompare, opAll:
		s := &scan{field: e.field, lo: math.Inf(-1), hi: math.Inf(1)}
		if e.field != nil && !e.field.NoIndex && s.narrow(e) {
			return []*scan{s}
		}
	case opRange:
		if !e.field.NoIndex {
			return []*scan{{field: e.field, near: e}}
		}
	case opAnd:
		var best []*scan
		ranges := map[*Field]*scan{} // all comparisons of a field make one range
		for _, sub := range e.of {
			scans := sub.scans()
			if len(scans) == 1 && sub.op == opCompare {
				if s := ranges[sub.field]; s != nil {
					s.narrow(sub)
					continue
				}
				ranges[sub.field] = scans[0]
				continue
			}
			if scans != nil && (best == nil || cost(scans) < cost(best)) {
				best = scans
			}
		}
		for _, sub := range e.of {
			if s := ranges[sub.field]; sub.op == opCompare && s != nil && (best == nil || s.cost() < cost(best)) {
				best = []*scan{s}
			}
		}
		return best
	case opOr:
		var all []*scan
		ranges := map[string]bool{} // a range that is named twice is read once
		for _, sub := range e.of {
			scans := sub.scans()
			if scans == nil {
				return nil
			}
			for _, s := range scans {
				if s.near == nil {
					id := fmt.Sprintf("%d %q %v %v", s.field.at, s.tag, s.lo, s.hi)
					if ranges[id] {
						continue
					}
					ranges[id] = true
				}
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}

// narrow narrows a range by a comparison. The bounds are inclusive: a bound that a comparison excludes is found and
// then fails the check.
func (s *scan) narrow(e *expr) bool {
	switch e.cmp {
	case "": // the field exists
	case "=":
		s.lo, s.hi = max(s.lo, e.num), min(s.hi, e.num)
	case "<", "<=":
		s.hi = min(s.hi, e.num)
	case ">", ">=":
		s.lo = max(s.lo, e.num)
	default:
		return false
	}
	return true
}

// holds reports whether a row meets a condition. A missing field has no tag, and compares with nothing.
func (e *expr) holds(r *Row) bool {
	switch e.op {
	case opAll:
		return e.field == nil || r.Value(e.field).Exists
	case opTag:
		return slices.ContainsFunc(r.Value(e.field).Tags, func(tag []byte) bool { return e.field.isTag(tag, e.key) })
	case opCompare:
		v := r.Value(e.field)
		return v.Exists && compare(v.Num, e.cmp, e.num)
	case opRange:
		v := r.Value(e.field)
		if !v.Exists {
			return false
		}
		p := newPoint(e.field.Vector.Metric, e.vec)
		q := newPoint(e.field.Vector.Metric, v.Vector)
		return math.Abs(p.to(&q)) <= e.radius()
	case opNot:
		return !e.of[0].holds(r)
	case opAnd:
		return !slices.ContainsFunc(e.of, func(sub *expr) bool { return !sub.holds(r) })
	case opOr:
		return slices.ContainsFunc(e.of, func(sub *expr) bool { return sub.holds(r) })
	}
	return false
}

// radius returns the max distance of a range, which the field's EPSILON widens.
func (e *expr) radius() float64 { return math.Abs(e.num * (1 + e.field.Vector.Epsilon)) }

func compare(x float64, cmp string, y float64) bool {
	switch cmp {
	case "=":
		return x == y
	case "!=":
		return x != y
	case "<":
		return x < y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x >= y
}

// Explain returns how a query is executed, in the notation of Kvrocks.
func (r *Registry) Explain(ns string, q *Query) (string, error) {
	p, err := r.plan(ns, q)
	if err != nil {
		return "", err
	}
	names := []string{"*"}
	switch {
	case len(q.Return) > 0:
		names = q.Return
	case q.Return != nil:
		names = []string{"nothing"}
	}
	var scans []string
	for _, s := range p.scans {
		scans = append(scans, s.String(p.ix))
	}
	text := scans[0]
	if len(scans) > 1 {
		text = "(merge " + strings.Join(scans, ", ") + ")"
	}
	if p.where.op != opAll || p.where.field != nil {
		text = fmt.Sprintf("(filter %s: %s)", p.where, text)
	}
	switch {
	case q.order != nil && !p.sorted:
		text = fmt.Sprintf("(top-n sort %s, %s, %d, %d: %s)", q.order.name, asc(q.order.desc), q.Offset, q.Count, text)
	case q.Count >= 0:
		text = fmt.Sprintf("(limit %d, %d: %s)", q.Offset, q.Count, text)
	}
	return fmt.Sprintf("project %s: %s", strings.Join(names, ", "), text), nil
}

func asc(desc bool) string {
	if desc {
		return "desc"
	}
	return "asc"
}

func (s *scan) String(ix *Index) string {
	switch {
	case s.field == nil:
		return "full-scan " + ix.Name
	case s.near != nil && s.near.op == opNearest:
		return fmt.Sprintf("hnsw-vector-knn-scan %s, [%s], %d", s.field.Name, appendVector(nil, s.near.vec), s.near.k)
	case s.near != nil:
		return fmt.Sprintf("hnsw-vector-range-scan %s, [%s], %s", s.field.Name, appendVector(nil, s.near.vec),
			appendNumber(nil, s.near.num))
	case s.field.Type == cf.SearchTag:
		return fmt.Sprintf("tag-scan %s, %s", s.field.Name, s.tag)
	}
	return fmt.Sprintf("numeric-scan %s, [%s, %s], %s", s.field.Name, appendNumber(nil, s.lo), appendNumber(nil, s.hi),
		asc(s.desc))
}

func (e *expr) String() string {
	var parts []string
	for _, sub := range e.of {
		parts = append(parts, sub.String())
	}
	switch e.op {
	case opAll:
		if e.field != nil {
			return e.name + " exists"
		}
		return "true"
	case opTag:
		return fmt.Sprintf("%s hastag %q", e.name, e.tag)
	case opCompare:
		return fmt.Sprintf("%s %s %s", e.name, e.cmp, appendNumber(nil, e.num))
	case opRange:
		return fmt.Sprintf("%s <-> [%s] < %s", e.name, appendVector(nil, e.vec), appendNumber(nil, e.num))
	case opNot:
		return "not " + parts[0]
	case opAnd:
		return "(and " + strings.Join(parts, ", ") + ")"
	case opOr:
		return "(or " + strings.Join(parts, ", ") + ")"
	}
	return "false"
}
