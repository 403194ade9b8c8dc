package search

import (
	"bytes"
	"fmt"
	"math"
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
}

// The costs of the scans, as Kvrocks estimates them.
const (
	costAll  = 100
	costTag  = 10
	costOne  = 5 // one number
	costOpen = 20
)

func (s *scan) cost() int {
	switch {
	case s.field == nil:
		return costAll
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
	case opCompare, opAll:
		if f != nil && f.Type != cf.SearchNumeric {
			return fmt.Errorf("field `%s` is not a numeric field", e.name)
		}
	case opRange, opNearest:
		if f.Type != cf.SearchVector {
			return fmt.Errorf("field `%s` is not a vector field", e.name)
		}
		return ErrVector
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
	if err := ix.check(q.where); err != nil {
		if _, ok := err.(*engine.Error); ok {
			return nil, err
		}
		return nil, reply(err)
	}
	p.scans = choose(q.where)
	if o := q.order; o != nil {
		if err := p.sort(o); err != nil {
			return nil, reply(err)
		}
	}
	return p, nil
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
	case f.Type != cf.SearchNumeric:
		return fmt.Errorf("field `%s` is not sortable", o.name)
	}
	one := p.scans[0]
	switch q := p.q; {
	case len(p.scans) == 1 && one.field == f:
		one.desc, p.sorted = o.desc, true
	case !f.NoIndex && (q.Count < 0 || len(p.scans) == 1 && one.field == nil):
		p.scans, p.sorted = []*scan{{field: f, lo: math.Inf(-1), hi: math.Inf(1), desc: o.desc}}, true
	case q.Count < 0 || q.Count > maxSorted || q.Offset > maxSorted-q.Count:
		return fmt.Errorf("SORTBY needs a LIMIT of at most %d keys here", maxSorted)
	}
	return nil
}

// choose returns the cheapest scans that find all keys that meet the condition.
func choose(e *expr) []*scan {
	if scans := e.scans(); scans != nil {
		if cost(scans) < costAll {
			return scans
		}
	}
	return []*scan{{}}
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
			return []*scan{{field: e.field, tag: e.field.tagKey([]byte(e.tag))}}
		}
	case opCompare, opAll:
		s := &scan{field: e.field, lo: math.Inf(-1), hi: math.Inf(1)}
		if e.field != nil && !e.field.NoIndex && s.narrow(e) {
			return []*scan{s}
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
		for _, sub := range e.of {
			scans := sub.scans()
			if scans == nil {
				return nil
			}
			all = append(all, scans...)
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
		for _, tag := range r.Value(e.field).Tags {
			if e.field.CaseSensitive && string(tag) == e.tag ||
				!e.field.CaseSensitive && bytes.Equal(lower(tag), lower([]byte(e.tag))) {
				return true
			}
		}
		return false
	case opCompare:
		v := r.Value(e.field)
		return v.Exists && compare(v.Num, e.cmp, e.num)
	case opNot:
		return !e.of[0].holds(r)
	case opAnd:
		for _, sub := range e.of {
			if !sub.holds(r) {
				return false
			}
		}
		return true
	case opOr:
		for _, sub := range e.of {
			if sub.holds(r) {
				return true
			}
		}
	}
	return false
}

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
	if q.Return != nil {
		names = q.Return
	}
	var scans []string
	for _, s := range p.scans {
		scans = append(scans, s.String(p.ix))
	}
	text := scans[0]
	if len(scans) > 1 {
		text = "(merge " + strings.Join(scans, ", ") + ")"
	}
	if q.where.op != opAll || q.where.field != nil {
		text = fmt.Sprintf("(filter %s: %s)", q.where, text)
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
	case opNot:
		return "not " + parts[0]
	case opAnd:
		return "(and " + strings.Join(parts, ", ") + ")"
	case opOr:
		return "(or " + strings.Join(parts, ", ") + ")"
	}
	return "false"
}
