package command

import (
	"strings"
	"sync"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/glob"
)

// ACLTable returns the commands as rules name them: by their own names, whatever they are renamed to. The ID of a
// command there is that of its Spec.
var ACLTable = sync.OnceValue(func() *acl.Table {
	list := make([]acl.Command, NumSpecs())
	for id := range list {
		s := ByID(id)
		c := acl.Command{Name: s.FullName(), NoAuth: s.Flags&NoAuth != 0}
		for _, cat := range s.ACLCategories() {
			c.Categories = append(c.Categories, strings.TrimPrefix(cat, "@"))
		}
		list[id] = c
	}
	t, err := acl.NewTable(list, func(pattern []byte) acl.Matcher { return glob.Compile(pattern) })
	if err != nil {
		panic(err) // register has checked the names
	}
	return t
})

// ACLKeys appends what acl.User.Check wants to know of the keys that AppendKeys has found in the arguments. Shard
// channels, which are routed like keys, are none.
func (s *Spec) ACLKeys(dst []acl.Key, refs []KeyRef, args [][]byte) []acl.Key {
	if s.Flags&PubSub != 0 {
		return dst
	}
	for i, ref := range refs {
		use := s.useOfKey(i, args)
		dst = append(dst, acl.Key{Arg: ref.Arg, Read: use.has("access"), Write: use.has("insert", "update", "delete")})
	}
	return dst
}

// setReturnsOld reports whether SET has the option GET.
func setReturnsOld(args [][]byte) bool {
	for i := 3; i < len(args); i++ {
		if EqualFold(args[i], "GET") {
			return true
		}
	}
	return false
}

// onlyGets reports whether BITFIELD changes nothing. Malformed arguments may change something.
func onlyGets(args [][]byte) bool {
	for i := 2; i < len(args); {
		switch left := len(args) - i - 1; {
		case EqualFold(args[i], "GET") && left >= 2:
			i += 3
		case EqualFold(args[i], "OVERFLOW") && left >= 1:
			i += 2
		default:
			return false
		}
	}
	return true
}

// ACLChannels returns which of the arguments are channels that a user must be allowed to use. To leave a channel
// needs no permission.
func (s *Spec) ACLChannels(args [][]byte) acl.Channels {
	if s.Flags&PubSub == 0 {
		return acl.Channels{}
	}
	switch s.full {
	case "subscribe", "ssubscribe":
		return acl.Channels{First: 1, Last: len(args)}
	case "psubscribe":
		return acl.Channels{First: 1, Last: len(args), Pattern: true}
	case "publish", "spublish", "mpublish":
		return acl.Channels{First: 1, Last: 2}
	}
	return acl.Channels{}
}
