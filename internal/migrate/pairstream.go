package migrate

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// stream compares the entries, the fields of XINFO STREAM, the groups and their pending entries.
func (x *pair) stream() error {
	src, dst, err := x.ask([]string{"XLEN", x.key}, []string{"XINFO", "STREAM", x.key}, []string{"XINFO", "GROUPS", x.key})
	if err != nil {
		return err
	}
	if src[0].Int != dst[0].Int {
		return differ("%d entries, not %d", dst[0].Int, src[0].Int)
	}
	for _, name := range []string{"last-generated-id", "max-deleted-entry-id", "entries-added"} {
		a, b := member(&src[1], name), member(&dst[1], name)
		if a != nil && b != nil && !equal(a, b) {
			return differ("%s: %s and %s", name, a, b)
		}
	}
	groups, err := sameGroups(&src[2], &dst[2])
	if err != nil {
		return err
	}
	if err := x.entries(); err != nil {
		return err
	}
	for _, g := range groups {
		if err := x.pending(g); err != nil {
			return err
		}
	}
	return nil
}

// member returns a member of a reply of names and values.
func member(r *resp.Reply, name string) *resp.Reply {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if string(r.Elems[i].Text) == name {
			return &r.Elems[i+1]
		}
	}
	return nil
}

// sameGroups compares replies to XINFO GROUPS, and returns the names of groups with pending entries.
func sameGroups(src, dst *resp.Reply) (pending []string, err error) {
	if len(src.Elems) != len(dst.Elems) {
		return nil, differ("%d groups, not %d", len(dst.Elems), len(src.Elems))
	}
	for i := range src.Elems {
		a := &src.Elems[i]
		name := member(a, "name")
		at := slices.IndexFunc(dst.Elems, func(b resp.Reply) bool {
			other := member(&b, "name")
			return name != nil && other != nil && string(other.Text) == string(name.Text)
		})
		if name == nil || at < 0 {
			return nil, differ("a group is missing")
		}
		for _, field := range []string{"last-delivered-id", "pending", "consumers"} {
			v, w := member(a, field), member(&dst.Elems[at], field)
			if v == nil || w == nil || !equal(v, w) {
				return nil, differ("group %.100q: another %s", name.Text, field)
			}
			if field == "pending" && v.Int > 0 {
				pending = append(pending, string(name.Text))
			}
		}
	}
	return pending, nil
}

// entries compares the entries, part by part.
func (x *pair) entries() error {
	for from := "-"; ; {
		src, dst, err := x.ask([]string{"XRANGE", x.key, from, "+", "COUNT", strconv.Itoa(partElems)})
		n := 0
		if err == nil {
			n = len(src[0].Elems)
		}
		switch {
		case err != nil:
			return err
		case !equal(&src[0], &dst[0]):
			return differ("other entries from %s on", from)
		case n < partElems:
			return nil
		}
		last := src[0].Elems[n-1].Elems
		if len(last) == 0 {
			return differ("the reply to XRANGE is not understood")
		}
		if from, err = after(last[0].Text); err != nil {
			return err
		}
	}
}

// after returns the id that follows an id "ms-seq". Redis before 6.2 has no other way to exclude one.
func after(id []byte) (string, error) {
	ms, seq, _ := strings.Cut(string(id), "-")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil || n == math.MaxUint64 {
		return "", differ("the entry %.40q", id)
	}
	return ms + "-" + strconv.FormatUint(n+1, 10), nil
}

// pending compares the pending entries of a group: ids, consumers, and how often they were delivered.
func (x *pair) pending(group string) error {
	for from := "-"; ; {
		src, dst, err := x.ask([]string{"XPENDING", x.key, group, from, "+", strconv.Itoa(partElems)})
		if err != nil {
			return err
		}
		a, b := src[0].Elems, dst[0].Elems
		if len(a) != len(b) {
			return differ("group %.100q: other pending entries from %s on", group, from)
		}
		for i := range a {
			if len(a[i].Elems) != 4 || len(b[i].Elems) != 4 {
				return differ("the reply to XPENDING is not understood")
			}
			for _, part := range []int{0, 1, 3} { // but not for how long they have been
				if !equal(&a[i].Elems[part], &b[i].Elems[part]) {
					return differ("group %.100q: the pending entry %s", group, a[i].Elems[0].Text)
				}
			}
		}
		if len(a) < partElems {
			return nil
		}
		if from, err = after(a[len(a)-1].Elems[0].Text); err != nil {
			return err
		}
	}
}
