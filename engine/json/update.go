package json

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Condition restricts when Set writes.
type Condition uint8

// The conditions.
const (
	Always    Condition = iota
	IfMissing           // the path has no result
	IfExists            // the path has a result
)

// Set replaces every result of a path by a value, given as its JSON text. If the path has no result and can have only
// one, Set adds the value as a new member to an existing object. A new document must be set at the root. Results within
// other results are skipped. done is false if the condition is not met or no object can take the new member. The key
// keeps its expiry.
func Set(tx *engine.Tx, key []byte, p *Path, text []byte, c Condition, o Options) (done bool, err error) {
	d, err := Open(tx, key, NewBudget(len(text)))
	if err != nil {
		return false, err
	}
	if p.IsRoot() {
		if c != Always && d.Exists() != (c == IfExists) {
			_, err := Compact(nil, aliased(text), o.MaxDepth) // it must be a valid document nevertheless
			return false, err
		}
		if err := d.replace(text, &o); err != nil {
			return false, err
		}
		return true, d.save(&o)
	}
	v, err := Parse(string(text), o.MaxDepth)
	switch {
	case err != nil:
		return false, err
	case !d.Exists() && c == IfExists:
		return false, nil
	case !d.Exists():
		return false, ErrNewAtRoot
	}
	if done, err = d.set(p, &v, c, &o, true); err != nil || !done {
		return false, err
	}
	return true, d.save(&o)
}

// set sets the value of the results of a path other than the root. With share the results share v: then the document
// must not be changed any more.
func (d *Document) set(p *Path, v *Value, c Condition, o *Options, share bool) (done bool, err error) {
	levels := depth(v, MaxDepth)
	if c != IfMissing {
		places, err := d.locate(p)
		if err != nil {
			return false, err
		}
		for i, at := range d.topmost(places) {
			if int(at.depth)+levels > o.MaxDepth {
				return false, ErrTooDeep
			}
			if i == 0 || share {
				*at.value() = *v
				continue
			}
			if err := d.left.take(4 * count(v)); err != nil {
				return false, err
			}
			*at.value() = v.Clone()
		}
		if len(places) > 0 || c == IfExists {
			return len(places) > 0, nil
		}
	}
	return d.add(p, v, levels, o)
}

// add adds the member that the last segment of a path names to the object that the preceding segments select.
func (d *Document) add(p *Path, v *Value, levels int, o *Options) (done bool, err error) {
	if !p.static() {
		return false, ErrNotStatic
	}
	last := len(p.segments) - 1
	sel := &p.segments[last].sels[0]
	if sel.kind == byIndex {
		places, err := d.locate(p)
		if err == nil && len(places) == 0 {
			err = ErrIndex
		}
		return false, err
	}
	parents, err := d.locate(&Path{segments: p.segments[:last]})
	if err != nil {
		return false, err
	}
	for _, at := range parents {
		parent := at.value()
		if parent.kind != Object || parent.box.find(sel.name) >= 0 {
			continue
		}
		if int(at.depth)+1+levels > o.MaxDepth {
			return false, ErrTooDeep
		}
		parent.box.set(sel.name, *v)
		done = true
	}
	return done, nil
}

// topmost removes repeated places and places within others.
func (d *Document) topmost(places []place) []place {
	if len(places) < 2 {
		return places
	}
	marked := make(map[place]struct{}, len(places))
	for _, at := range places {
		marked[at] = struct{}{}
	}
	places = places[:0]
	left := len(marked)
	var visit func(at place)
	visit = func(at place) {
		if _, ok := marked[at]; ok {
			places = append(places, at)
			left--
			return
		}
		b := at.value().box
		if b == nil {
			return
		}
		for i := 0; i < len(b.vals) && left > 0; i++ {
			visit(child(at, b, i))
		}
	}
	visit(place{in: d.top})
	return places
}

// Item is one assignment of MSet.
type Item struct {
	Key  []byte
	Path *Path
	Text []byte
}

// MSet does Set for each item in turn and writes every document once. If an item fails, nothing is written.
func MSet(tx *engine.Tx, items []Item, o Options) error {
	docs := make(map[string]*Document, len(items))
	left := NewBudget(0)
	var order []*Document
	for _, it := range items {
		d := docs[string(it.Key)]
		if d == nil {
			var err error
			if d, err = Open(tx, it.Key, left); err != nil {
				return err
			}
			docs[string(it.Key)] = d
			order = append(order, d)
		}
		left.add(len(it.Text))
		if it.Path.IsRoot() {
			if err := d.replace(it.Text, &o); err != nil {
				return err
			}
			continue
		}
		v, err := Parse(string(it.Text), o.MaxDepth)
		if err != nil {
			return err
		}
		if !d.Exists() {
			return ErrNewAtRoot
		}
		if _, err := d.set(it.Path, &v, Always, &o, false); err != nil {
			return err
		}
	}
	for _, d := range order {
		if err := d.encode(&o); err != nil {
			return err
		}
	}
	tx.LogData(cf.LogJSON)
	for _, d := range order {
		tx.SaveAppend(&d.rec, d.tail)
	}
	return nil
}

// Delete deletes the results of a path and returns their number, without results within other results. Deleting the
// root deletes the key.
func Delete(tx *engine.Tx, key []byte, p *Path, o Options) (int, error) {
	d, err := Open(tx, key, NewBudget(0))
	if err != nil || !d.Exists() {
		return 0, err
	}
	if p.IsRoot() {
		d.drop()
		return 1, nil
	}
	places, err := d.locate(p)
	if err != nil {
		return 0, err
	}
	n := d.remove(places)
	switch {
	case n == 0:
		return 0, nil
	case len(d.top.vals) == 0:
		d.drop()
		return n, nil
	}
	return n, d.save(&o)
}

// remove deletes values and returns their number, without values within others.
func (d *Document) remove(places []place) int {
	places = d.topmost(places)
	drop := make(map[*box]map[int]bool)
	for _, at := range places {
		if drop[at.in] == nil {
			drop[at.in] = make(map[int]bool)
		}
		drop[at.in][int(at.i)] = true
	}
	for b, gone := range drop {
		b.remove(func(i int) bool { return gone[i] })
	}
	return len(places)
}

// Merge merges a text into the value at each result of a path by RFC 7396, or adds it as Set does. Merging null deletes
// a result, except that the root becomes null.
func Merge(tx *engine.Tx, key []byte, p *Path, text []byte, o Options) (done bool, err error) {
	d, err := Open(tx, key, NewBudget(len(text)))
	if err != nil {
		return false, err
	}
	if !d.Exists() {
		if !p.IsRoot() {
			err = ErrNewAtRoot
		} else if err = d.replace(text, &o); err == nil {
			return true, d.save(&o)
		}
		return false, err
	}
	patch, err := Parse(string(text), o.MaxDepth)
	if err != nil {
		return false, err
	}
	places, err := d.locate(p)
	if err != nil {
		return false, err
	}
	levels := depth(&patch, MaxDepth)
	switch {
	case len(places) == 0:
		if done, err = d.add(p, &patch, levels, &o); err != nil || !done {
			return false, err
		}
	case patch.kind == Null && !p.IsRoot():
		d.remove(places)
		if len(d.top.vals) == 0 {
			d.drop()
			return true, nil
		}
	default:
		size := count(&patch)
		names := make([]string, len(places)) // of members: a merge into the object that contains them may move them
		for i, at := range places {
			if at.in.keys != nil {
				names[i] = at.in.keys[at.i]
			}
		}
		for i, at := range places {
			if at.in.keys != nil {
				if at.i = int32(at.in.find(names[i])); at.i < 0 {
					continue // a merge has removed it
				}
			}
			if int(at.depth)+levels > o.MaxDepth {
				return false, ErrTooDeep
			}
			if err := d.left.take(size); err != nil {
				return false, err
			}
			merge(at.value(), &patch)
		}
	}
	return true, d.save(&o)
}

// merge applies a merge patch. It copies objects of the patch, so that the next merge cannot change them.
func merge(v, patch *Value) {
	if patch.kind != Object {
		*v = *patch
		return
	}
	if v.kind != Object {
		*v = newObject()
	}
	gone := make(map[int]bool)
	for i := range patch.box.vals {
		name, p := patch.box.keys[i], &patch.box.vals[i]
		at := v.box.find(name)
		switch {
		case p.kind == Null:
			if at >= 0 {
				gone[at] = true
			}
		case at >= 0:
			merge(&v.box.vals[at], p)
		default:
			var member Value
			merge(&member, p)
			v.box.set(name, member)
		}
	}
	if len(gone) > 0 {
		v.box.remove(func(i int) bool { return gone[i] })
	}
}

// count returns the number of values in a value, including itself.
func count(v *Value) int64 {
	n := int64(1)
	for i := range v.Len() {
		n += count(v.At(i))
	}
	return n
}

// Clear empties arrays and objects and sets numbers to 0 at the results of a path. It returns how many it changed,
// without results within other results.
func Clear(tx *engine.Tx, key []byte, p *Path, o Options) (int, error) {
	d, places, err := locateIn(tx, key, p, 0)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, at := range d.topmost(places) {
		v := at.value()
		switch {
		case v.Len() > 0:
			v.box.clear()
		case v.IsNumber() && v.Float() != 0:
			*v = IntOf(0)
		default:
			continue
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, d.save(&o)
}

// WrongKind returns the error for a value that does not have the kind that a command works on.
func WrongKind(want string, v *Value) error {
	return engine.NewError("WRONGTYPE", fmt.Sprintf("wrong type of path value - expected %s but found %s", want,
		v.TypeName()))
}
