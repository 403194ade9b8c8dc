// Package search is Kvrocks's search indexes: their definitions, the entries of indexed keys, and queries.
//
// An index covers the hashes, or the JSON documents, of a namespace whose keys have one of its prefixes. For every
// value of an indexed TAG or NUMERIC field the search family has an entry that names the key, see package cf. The
// entries of a key follow from the key alone ([Index.contents]), so whoever writes a key compares them before and after
// ([Watch]) and writes the difference in the same transaction. An indexed VECTOR field has a graph of all vectors.
//
// A field that is missing has no entry. A key with a field that cannot be read as its type says, such as a NUMERIC
// field that is not a number, is not indexed at all, as in Kvrocks.
package search

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/json"
)

// Errors that become replies.
var (
	ErrExists  = engine.NewError("ERR", "index already exists")
	ErrMissing = engine.NewError("ERR", "index not found")
)

// Field is an indexed field of a hash, or a path in a JSON document.
type Field struct {
	Name string
	cf.SearchField

	at   int        // index in Index.Fields
	path *json.Path // of a JSON document
}

// Index is a definition. It must not be changed when it is in a Registry.
type Index struct {
	Namespace string
	Name      string
	On        cf.Type  // TypeHash or TypeJSON
	Prefixes  [][]byte // of the keys; none = all keys
	Fields    []*Field // sorted by name

	building bool // FT.CREATE is under way: the index is maintained, but queries do not find it
}

// Add adds a field. A name that exists already stays as it is.
func (ix *Index) Add(f Field) error {
	if ix.Field(f.Name) != nil {
		return nil
	}
	if ix.On == cf.TypeJSON {
		path := f.Name
		if path[0] != '$' {
			path = "$." + path
		}
		var err error
		if f.path, err = json.ParsePath(path); err != nil {
			return err
		}
	}
	if v := &f.Vector; f.Type == cf.SearchVector && (v.VectorType != Float64Vector || v.Metric > MetricCosine) {
		return errors.New("an unknown type or metric of vectors")
	}
	ix.Fields = append(ix.Fields, &f)
	slices.SortFunc(ix.Fields, func(a, b *Field) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range ix.Fields {
		f.at = i
	}
	return nil
}

// Field returns a field by its name, nil if it does not exist.
func (ix *Index) Field(name string) *Field {
	i, ok := slices.BinarySearchFunc(ix.Fields, name, func(f *Field, n string) int { return cmp.Compare(f.Name, n) })
	if !ok {
		return nil
	}
	return ix.Fields[i]
}

// covers reports whether the index covers a key, if the type of the key is right.
func (ix *Index) covers(key []byte) bool {
	return len(ix.Prefixes) == 0 ||
		slices.ContainsFunc(ix.Prefixes, func(p []byte) bool { return bytes.HasPrefix(key, p) })
}

// fieldData returns the common prefix of the keys of a field's entries.
func (ix *Index) fieldData(f *Field) []byte {
	return cf.AppendSearchField(nil, ix.Namespace, cf.SearchFieldData, []byte(ix.Name), []byte(f.Name))
}

// put writes the definition, but the fields.
func (ix *Index) put(tx *engine.Tx) {
	name := []byte(ix.Name)
	tx.Put(cf.Search, cf.AppendSearchPrefix(nil, ix.Namespace, cf.SearchIndexMeta, name),
		cf.AppendSearchIndex(nil, ix.On))
	tx.Put(cf.Search, cf.AppendSearchPrefix(nil, ix.Namespace, cf.SearchPrefixes, name),
		cf.AppendSearchPrefixes(nil, ix.Prefixes))
}

// clear deletes the entries and the graphs, and writes the fields anew, with graphs of no level.
func (ix *Index) clear(tx *engine.Tx) {
	dropRange(tx, ix.Namespace, ix.Name, cf.SearchFieldMeta)
	dropRange(tx, ix.Namespace, ix.Name, cf.SearchFieldData)
	for _, f := range ix.Fields {
		field := f.SearchField
		field.Vector.Levels = 0
		tx.Put(cf.Search, cf.AppendSearchField(nil, ix.Namespace, cf.SearchFieldMeta, []byte(ix.Name), []byte(f.Name)),
			field.Append(nil))
	}
}

func dropRange(tx *engine.Tx, ns, name string, kind cf.SearchKind) {
	begin := cf.AppendSearchPrefix(nil, ns, kind, []byte(name))
	end, _ := cf.AppendSuccessor(nil, begin)
	tx.DeleteRange(cf.Search, begin, end)
}

// drop deletes the definition and the entries.
func (ix *Index) drop(tx *engine.Tx) {
	for _, kind := range []cf.SearchKind{cf.SearchIndexMeta, cf.SearchPrefixes} {
		tx.Delete(cf.Search, cf.AppendSearchPrefix(nil, ix.Namespace, kind, []byte(ix.Name)))
	}
	dropRange(tx, ix.Namespace, ix.Name, cf.SearchFieldMeta)
	dropRange(tx, ix.Namespace, ix.Name, cf.SearchFieldData)
}

// definitions are the indexes of each namespace, sorted by name. A value never changes.
type definitions map[string][]*Index

// Registry has the definitions of a database in memory. Its methods are safe for concurrent use.
type Registry struct {
	db   *engine.DB
	warn func(text string) // about definitions that cannot be used

	mu  sync.Mutex                  // held while all is replaced
	all atomic.Pointer[definitions] // nil = no index exists
}

// Open reads the definitions of a database. A database whose keys carry cluster slots has no indexes, as in Kvrocks.
// warn is called for what a log should say.
func Open(db *engine.DB, warn func(text string)) *Registry {
	r := &Registry{db: db, warn: warn}
	r.Reload()
	return r
}

// Reload reads the definitions again: a master has changed them, or the database was replaced. Indexes that are being
// built stay.
func (r *Registry) Reload() {
	if r.db.Slots() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := read(r.db, r.warn)
	if err != nil {
		r.warn("the search indexes cannot be read: " + err.Error())
		return
	}
	for _, list := range r.load() {
		for _, ix := range list {
			if ix.building {
				next.add(ix)
			}
		}
	}
	r.store(next)
}

func (r *Registry) load() definitions {
	if r == nil {
		return nil
	}
	if all := r.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (r *Registry) store(d definitions) {
	if len(d) == 0 {
		r.all.Store(nil)
		return
	}
	r.all.Store(&d)
}

func (d definitions) add(ix *Index) {
	list := append(slices.Clip(d[ix.Namespace]), ix)
	slices.SortFunc(list, func(a, b *Index) int { return cmp.Compare(a.Name, b.Name) })
	d[ix.Namespace] = list
}

// change replaces the definitions by a changed copy.
func (r *Registry) change(f func(d definitions) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := definitions{}
	maps.Copy(next, r.load())
	err := f(next)
	if err == nil {
		r.store(next)
	}
	return err
}

func (d definitions) remove(ns, name string) {
	d[ns] = slices.DeleteFunc(slices.Clone(d[ns]), func(ix *Index) bool { return ix.Name == name })
	if len(d[ns]) == 0 {
		delete(d, ns)
	}
}

// Any reports whether an index exists. It costs one atomic load.
func (r *Registry) Any() bool { return r != nil && r.all.Load() != nil }

// List returns the indexes of a namespace, sorted by name.
func (r *Registry) List(ns string) []*Index {
	return slices.DeleteFunc(slices.Clone(r.load()[ns]), func(ix *Index) bool { return ix.building })
}

// Find returns an index.
func (r *Registry) Find(ns, name string) (*Index, error) {
	for _, ix := range r.load()[ns] {
		if ix.Name == name && !ix.building {
			return ix, nil
		}
	}
	return nil, ErrMissing
}

// Drop deletes an index. The transaction must hold all locks.
func (r *Registry) Drop(tx *engine.Tx, name string) error {
	ix, err := r.Find(tx.Namespace(), name)
	if err != nil {
		return err
	}
	ix.drop(tx)
	ns := tx.Namespace()
	tx.OnCommit(func() { r.change(func(d definitions) error { d.remove(ns, name); return nil }) })
	return nil
}

// Fixed returns a registry that has the present definitions for ever. It serves a database that is being filled and
// will replace this one: [Registry.Before] and [Watch.After] write the entries of its keys, PutAll the definitions.
func (r *Registry) Fixed() *Registry {
	fixed := definitions{}
	for ns := range r.load() {
		if list := r.List(ns); len(list) > 0 {
			fixed[ns] = list
		}
	}
	f := &Registry{}
	f.store(fixed)
	return f
}

// PutAll writes all definitions, of indexes without entries.
func (r *Registry) PutAll(tx *engine.Tx) {
	for _, list := range r.load() {
		for _, ix := range list {
			ix.clear(tx)
			ix.put(tx)
		}
	}
}

// Flush deletes the entries of all indexes of a namespace, whose keys the transaction deletes; the definitions stay.
func (r *Registry) Flush(tx *engine.Tx, ns string) {
	for _, ix := range r.load()[ns] {
		ix.clear(tx)
	}
}

// FlushAll is Flush of all namespaces.
func (r *Registry) FlushAll(tx *engine.Tx) {
	for ns := range r.load() {
		r.Flush(tx, ns)
	}
}

// buildPiece is how many keys of an index that is built are indexed in one transaction; vectorPiece those of an index
// with vectors, each of which takes milliseconds.
const (
	buildPiece  = 128
	vectorPiece = 8
)

// HasVectors reports whether an index of a namespace has graphs.
func (r *Registry) HasVectors(ns string) bool {
	return slices.ContainsFunc(r.load()[ns], (*Index).hasGraphs)
}

func (ix *Index) hasGraphs() bool { return slices.ContainsFunc(ix.Fields, (*Field).hasGraph) }

// Rebuild writes the entries of all indexes of a namespace anew, from the keys that the transaction sees. All locks
// must be held. It calls full before each key, and ends with an error of full.
func (r *Registry) Rebuild(tx *engine.Tx, ns string, full func() error) error {
	return tx.InNamespace(ns, func() error {
		for _, ix := range r.load()[ns] {
			ix.clear(tx)
			if err := ix.rebuild(tx, full); err != nil {
				return err
			}
		}
		return nil
	})
}

func (ix *Index) rebuild(tx *engine.Tx, full func() error) error {
	s := newKeyScan(tx, nil, ix)
	defer s.close()
	for {
		key, ok, err := s.next()
		if err == nil && ok {
			err = full()
		}
		if err != nil || !ok {
			return err
		}
		after, err := ix.contents(tx, key, tx.Now())
		if err == nil {
			err = ix.update(tx, key, &contents{}, &after)
		}
		if err != nil {
			return err
		}
	}
}

// Create makes an index in the namespace, and indexes the keys that exist, in pieces, so that other clients can run in
// between. update runs a function in a transaction that holds the locks of some keys and their [Registry.GraphLocks],
// or all locks, and commits it.
//
// The fields are written first: a compaction drops entries without a field. The index itself is written last. Fields
// and entries that a crash leaves behind before belong to no index, and the next Create with the name deletes them.
func (r *Registry) Create(ix *Index, update func(keys [][]byte, all bool, f func(tx *engine.Tx) error) error) error {
	ix.building = true
	// From the end of this piece on all writers maintain the index. All locks: no writer is left that does not.
	err := update(nil, true, func(tx *engine.Tx) error {
		ix.clear(tx)
		return r.change(func(d definitions) error {
			if slices.ContainsFunc(d[ix.Namespace], func(i *Index) bool { return i.Name == ix.Name }) {
				return ErrExists
			}
			d.add(ix)
			return nil
		})
	})
	if err == ErrExists {
		return err
	}
	if err == nil {
		err = r.build(ix, update)
	}
	if err == nil {
		err = update(nil, true, func(tx *engine.Tx) error {
			ix.put(tx)
			done := *ix
			done.building = false
			tx.OnCommit(func() {
				r.change(func(d definitions) error {
					d.remove(ix.Namespace, ix.Name)
					d.add(&done)
					return nil
				})
			})
			return nil
		})
	}
	if err != nil {
		r.change(func(d definitions) error { d.remove(ix.Namespace, ix.Name); return nil })
	}
	return err
}

// build writes the entries of the keys that exist.
func (r *Registry) build(ix *Index, update func(keys [][]byte, all bool, f func(tx *engine.Tx) error) error) error {
	tx := r.db.NewTx()
	tx.Begin(ix.Namespace)
	defer tx.Release()
	var keys [][]byte
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := update(keys, false, func(tx *engine.Tx) error {
			for _, key := range keys {
				after, err := ix.contents(tx, key, tx.Now())
				if err == nil {
					err = ix.update(tx, key, &contents{}, &after)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		keys = keys[:0]
		return err
	}
	snap := r.db.NewSnapshot()
	defer snap.Close()
	s := newKeyScan(tx, snap, ix)
	defer s.close()
	piece := buildPiece
	if ix.hasGraphs() {
		piece = vectorPiece
	}
	for {
		key, ok, err := s.next()
		switch {
		case err != nil:
			return err
		case !ok:
			return flush()
		}
		if keys = append(keys, bytes.Clone(key)); len(keys) == piece {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// read reads all definitions. Between the namespaces it skips their entries.
func read(db *engine.DB, warn func(string)) (definitions, error) {
	all := definitions{}
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	var from []byte
	for {
		it := tx.Iter(cf.Search, engine.IterOptions{Lower: from, KeysOnly: true, Limit: 1})
		ok, key := it.Next(), bytes.Clone(it.Key())
		err := it.Err()
		it.Close()
		if err != nil || !ok {
			return all, err
		}
		if len(key) < 1+int(key[0]) {
			return all, nil // not a key of the format; those behind it begin with higher lengths
		}
		prefix := key[:1+int(key[0])]
		if err := readNamespace(tx, all, string(prefix[1:]), warn); err != nil {
			return all, err
		}
		if from, ok = cf.AppendSuccessor(nil, prefix); !ok {
			return all, nil
		}
	}
}

func readNamespace(tx *engine.Tx, all definitions, ns string, warn func(string)) error {
	prefix := cf.AppendNSPrefix(nil, ns)
	it := tx.Iter(cf.Search, engine.IterOptions{Lower: prefix, Upper: append(prefix[:len(prefix):len(prefix)],
		byte(cf.SearchFieldData))})
	defer it.Close()
	indexes := map[string]*Index{}
	bad := map[string]error{}
	for it.Next() {
		k, err := cf.ParseSearchKey(it.Key())
		if err != nil {
			continue
		}
		name := string(k.Index)
		ix := indexes[name]
		if ix == nil && k.Kind != cf.SearchIndexMeta {
			continue
		}
		switch value := bytes.Clone(it.Value()); k.Kind {
		case cf.SearchIndexMeta:
			ix = &Index{Namespace: ns, Name: name}
			indexes[name] = ix
			ix.On, err = cf.DecodeSearchIndex(value)
		case cf.SearchPrefixes:
			ix.Prefixes, err = cf.DecodeSearchPrefixes(nil, value)
		case cf.SearchFieldMeta:
			f := Field{Name: string(k.Field)}
			if f.SearchField, err = cf.DecodeSearchField(value); err == nil && f.Name == "" {
				err = errors.New("a field without a name")
			}
			if err == nil {
				err = ix.Add(f)
			}
		}
		if err != nil {
			bad[name] = err
		}
	}
	for name, ix := range indexes {
		if bad[name] != nil {
			warn(fmt.Sprintf("the search index %q is not maintained: %v", name, bad[name]))
			continue
		}
		all.add(ix)
	}
	return it.Err()
}
