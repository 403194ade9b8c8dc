package offline

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Inspection is the result of [Inspect]. Bytes are the sizes of keys and values before compression, without file
// overhead. The size of a key includes its metadata record and all its members.
type Inspection struct {
	Dir        string                `json:"dir,omitempty"`
	Server     string                `json:"server,omitempty"`
	Sampled    bool                  `json:"sampled"` // only a sample of the keys was examined
	Keys       int64                 `json:"keys"`
	Bytes      int64                 `json:"bytes"`
	FileBytes  int64                 `json:"file_bytes,omitempty"` // total size of the table files on disk
	Types      map[string]*Usage     `json:"types"`
	Namespaces map[string]*Usage     `json:"namespaces,omitempty"`
	Sizes      []Bucket              `json:"sizes"` // keys by size
	TTLs       []Bucket              `json:"ttls"`  // keys by time to live
	Biggest    []Key                 `json:"biggest"`
	Members    []Key                 `json:"most_members"`
	Garbage    *GarbageBytes         `json:"garbage,omitempty"`
	Families   map[string]*FamilyUse `json:"families,omitempty"`
	Seconds    float64               `json:"seconds"`
}

// Usage is the space used by a group of keys.
type Usage struct {
	Keys    int64 `json:"keys"`
	Members int64 `json:"members"`
	Bytes   int64 `json:"bytes"`
}

func (u *Usage) add(members, bytes int64) {
	u.Keys++
	u.Members += members
	u.Bytes += bytes
}

// Bucket counts the keys up to a bound.
type Bucket struct {
	Name  string `json:"name"`
	Keys  int64  `json:"keys"`
	Bytes int64  `json:"bytes"`
}

// Key is one key of a list.
type Key struct {
	Namespace string `json:"namespace,omitempty"`
	Key       string `json:"key"`
	Type      string `json:"type"`
	Members   int64  `json:"members"`
	Bytes     int64  `json:"bytes"`
	Expire    int64  `json:"expire,omitempty"` // milliseconds since the epoch
}

// GarbageBytes describes what compactions will drop.
type GarbageBytes struct {
	Records  int64        `json:"records"`
	Bytes    int64        `json:"bytes"`
	Expired  int64        `json:"expired_keys"` // metadata records
	Empty    int64        `json:"empty_keys"`
	Versions []GarbageKey `json:"biggest"`
}

// GarbageKey is a user key with members that commands do not see.
type GarbageKey struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Versions  int64  `json:"versions"` // number of dead versions
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"`
}

// FamilyUse is the space used by a column family.
type FamilyUse struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Collector builds an [Inspection] from keys.
type Collector struct {
	In  *Inspection
	top int
	now int64
}

// NewCollector returns a collector that lists the top largest keys.
func NewCollector(top int, now time.Time) *Collector {
	in := &Inspection{Types: map[string]*Usage{}, Biggest: []Key{}, Members: []Key{}}
	for _, name := range sizeNames {
		in.Sizes = append(in.Sizes, Bucket{Name: name})
	}
	for _, t := range ttls {
		in.TTLs = append(in.TTLs, Bucket{Name: t.name})
	}
	return &Collector{In: in, top: top, now: now.UnixMilli()}
}

// sizeNames are the bounds of the size buckets: powers of 8 from 64 bytes.
var sizeNames = []string{"up to 64 bytes", "up to 512 bytes", "up to 4 KiB", "up to 32 KiB", "up to 256 KiB",
	"up to 2 MiB",
	"up to 16 MiB", "up to 128 MiB", "more than 128 MiB"}

// ttl is a bucket of times to live, up to most.
type ttl struct {
	name string
	most time.Duration
}

var ttls = []ttl{
	{"expired", 0}, {"up to a minute", time.Minute}, {"up to an hour", time.Hour}, {"up to a day", 24 * time.Hour},
	{"up to a week", 7 * 24 * time.Hour}, {"up to 30 days", 30 * 24 * time.Hour}, {"longer", 1 << 62}, {"never", -1},
}

// Add counts a key.
func (c *Collector) Add(k Key) {
	in := c.In
	in.Keys++
	in.Bytes += k.Bytes
	use(&in.Types, k.Type).add(k.Members, k.Bytes)
	if k.Namespace != "" {
		use(&in.Namespaces, k.Namespace).add(k.Members, k.Bytes)
	}
	at := 0
	if k.Bytes > 64 {
		at = min((bits.Len64(uint64(k.Bytes-1))-6+2)/3, len(in.Sizes)-1)
	}
	in.Sizes[at].Keys++
	in.Sizes[at].Bytes += k.Bytes
	at = len(ttls) - 1
	if k.Expire != 0 {
		left := time.Duration(min(max(k.Expire-c.now, 0), 1<<40)) * time.Millisecond
		at = slices.IndexFunc(ttls, func(t ttl) bool { return left <= t.most })
	}
	in.TTLs[at].Keys++
	in.TTLs[at].Bytes += k.Bytes
	in.Biggest = keep(in.Biggest, k, c.top, func(k *Key) int64 { return k.Bytes })
	if k.Members > 0 {
		in.Members = keep(in.Members, k, c.top, func(k *Key) int64 { return k.Members })
	}
}

func use(m *map[string]*Usage, name string) *Usage {
	if *m == nil {
		*m = map[string]*Usage{}
	}
	u := (*m)[name]
	if u == nil {
		u = new(Usage)
		(*m)[name] = u
	}
	return u
}

// keep inserts an element into a list of the n greatest elements in descending order.
func keep[T any](list []T, e T, n int, size func(*T) int64) []T {
	if len(list) >= n {
		if n == 0 || size(&list[len(list)-1]) >= size(&e) {
			return list
		}
		list = list[:len(list)-1]
	}
	at, _ := slices.BinarySearchFunc(list, size(&e), func(x T, n int64) int { return cmp.Compare(n, size(&x)) })
	return slices.Insert(list, at, e)
}

// Inspect describes the content of the database in dir, which no server may have open, and lists the top largest keys.
// It changes nothing. It skips unreadable records: see [Check].
func Inspect(ctx context.Context, dir string, top int, o Options) (*Inspection, error) {
	o.fill()
	r, err := engine.OpenReadOnly(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	began := o.Now()
	i := &inspector{checker: newChecker(ctx, r, &o), Collector: NewCollector(top, began)}
	i.In.Dir = dir
	i.In.Garbage = &GarbageBytes{Versions: []GarbageKey{}}
	i.In.Families = map[string]*FamilyUse{}
	for _, t := range r.Tables() {
		f := i.In.Families[t.Family]
		if f == nil {
			f = new(FamilyUse)
			i.In.Families[t.Family] = f
		}
		f.Files++
		f.Bytes += t.Bytes
		i.In.FileBytes += t.Bytes
	}
	for _, step := range []func() error{i.records, i.members, i.streams} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	i.In.Seconds = o.Now().Sub(began).Seconds()
	return i.In, nil
}

// inspector examines one database. Strings and documents are counted with their metadata records, other types with
// their members.
type inspector struct {
	*checker
	*Collector
	dead GarbageKey
	at   []byte // of dead: the key without its version
	ver  []byte // of dead: the last version
}

// records reads the metadata records.
func (i *inspector) records() error {
	return i.walk(cf.Metadata, "metadata", 0, func(key, value []byte) {
		ns, userKey, err := cf.SplitNSKey(key, i.slots)
		if err != nil {
			return
		}
		m, tail, err := cf.DecodeMeta(value)
		size := int64(len(key) + len(value))
		g := i.In.Garbage
		switch {
		case err != nil:
			return
		case !m.Type.Known() || m.Live(i.checker.now):
		default:
			if m.Expired(i.checker.now) || m.FieldsEnd() != 0 {
				g.Expired++
			} else {
				g.Empty++
			}
			g.Records++
			g.Bytes += size
			return
		}
		o := owner{meta: m, tail: tail}
		if !m.Type.SingleRecord() && (o.wants() || i.hasMembers(key, &m)) {
			return // counted with its members
		}
		i.Add(Key{Namespace: string(ns), Key: Show(userKey), Type: m.Type.String(), Bytes: size, Expire: int64(m.Expire)})
	})
}

// hasMembers looks for the first member of a key that may have none.
func (i *inspector) hasMembers(nsKey []byte, m *cf.Meta) bool {
	cur := under(i.r, m.Type.Family(), cf.AppendSubkeyPrefix(nil, nsKey, i.slots, m.Version), 1)
	defer cur.Close()
	return cur.Next()
}

// members reads the families default and zset_score.
func (i *inspector) members() error {
	err := i.groups("members", i.group, source{id: cf.Default}, source{id: cf.ZSetScore})
	i.endDead()
	return err
}

// streams reads the family stream.
func (i *inspector) streams() error {
	err := i.groups("streams", i.group, source{id: cf.Stream})
	i.endDead()
	return err
}

// group counts the records whose keys begin with a prefix; records of the first family are members.
func (i *inspector) group(prefix []byte, families []*grouped) {
	var records, members, size int64
	for n, g := range families {
		g.each(prefix, func(sub, value []byte) {
			records++
			size += int64(len(prefix) + len(sub) + len(value))
			if n == 0 {
				members++
			}
		})
	}
	o, st := i.find(prefix)
	if st == live || st == notChecked && o != nil && o.meta.Type != cf.TypeNone {
		i.Add(Key{Namespace: o.ns, Key: Show(o.key), Type: o.meta.Type.String(), Members: members,
			Bytes: size + int64(len(o.nsKey)+len(o.raw)), Expire: int64(o.meta.Expire)})
		return
	}
	if o == nil {
		return
	}
	// Versions of one key are adjacent.
	name, version := prefix[:len(prefix)-8], prefix[len(prefix)-8:]
	if !bytes.Equal(i.at, name) {
		i.endDead()
		i.at, i.dead = name, GarbageKey{Namespace: o.ns, Key: Show(o.key)}
		i.ver = nil
	}
	if !bytes.Equal(i.ver, version) {
		i.dead.Versions++
		i.ver = version
	}
	i.dead.Records += records
	i.dead.Bytes += size
	i.In.Garbage.Records += records
	i.In.Garbage.Bytes += size
}

func (i *inspector) endDead() {
	if i.at != nil {
		g := i.In.Garbage
		g.Versions = keep(g.Versions, i.dead, i.top, func(k *GarbageKey) int64 { return k.Bytes })
	}
	i.at = nil
}
