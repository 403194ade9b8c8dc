package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// keySpec is a key specification of a command.
type keySpec struct {
	flags []string
	// begin says how the first key is found: "index", "keyword" or "unknown"; find, how the other keys are found:
	// "range", "keynum" or "unknown".
	begin, find string
	keyword     string
	at          int    // the index, of the key or of the number of keys; for a keyword the index to search from
	span        [3]int // of a range: last key, step, limit; of keynum: the number's index, the first key's, step
	built       bool   // the keys are not among the arguments
}

// has reports whether the flags contain one of the given flags.
func (k *keySpec) has(flags ...string) bool {
	return slices.ContainsFunc(k.flags, func(f string) bool { return slices.Contains(flags, f) })
}

// parseKeySpec reads a key specification: flags, and after an @ the places of the keys, if they differ from the fact
// keys. The flags RO, RW, OW and RM say whether the value is only read, changed, overwritten or removed; access: the
// value is returned to the client; insert, update and delete: how the value changes. Without flags a reader has "RO
// access", another command "RW access update". Places:
//
//	3            the argument with this index
//	3 -1 1       from this index, up to the one so far from it (negative: from the end), every so many arguments
//	#2           as many as the number at this index says, after it
//	#1 2         the same, every second argument after it
//	STORE@6      the argument after this word, which is looked for from this index on
//	STORE@6 -1 1 2   from the argument after the word up to the end, all or (limit 2) the first half of them
//	?            none of the arguments: the names of these keys are made from other data
//	~            among the arguments, where this cannot say
//
// It panics when the specification makes no sense.
func (s *Spec) parseKeySpec(text string) keySpec {
	flags, place, has := strings.Cut(text, " @ ")
	k := keySpec{flags: strings.Fields(flags)}
	switch {
	case has:
	case s.facts.counted != 0:
		place = s.facts.place
	case s.first == 0:
		place = "~"
	case s.last < 0:
		place = s.facts.place
	default:
		place = fmt.Sprint(s.first, s.last-s.first, s.step)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(fmt.Sprintf("the key specification of %s: %v", s.FullName(), err))
		}
		return n
	}
	words := strings.Fields(place)
	if words[0] == "?" || words[0] == "~" {
		k.begin, k.find, k.built = "unknown", "unknown", words[0] == "?"
		return k
	}
	if after, ok := strings.CutPrefix(words[0], "#"); ok {
		k.begin, k.find, k.at, k.span = "index", "keynum", number(after), [3]int{0, 1, 1}
		if len(words) > 1 {
			k.span[2] = number(words[1])
		}
		return k
	}
	k.begin, k.find, k.span = "index", "range", [3]int{0, 1, 0}
	if word, from, ok := strings.Cut(words[0], "@"); ok {
		k.begin, k.keyword, words[0] = "keyword", word, from
	}
	k.at = number(words[0])
	for i, w := range words[1:] {
		k.span[i] = number(w)
	}
	return k
}

// Flags of keys that depend on the arguments.
var (
	setOverwrites = keySpec{flags: []string{"OW", "update"}}
	fieldReads    = keySpec{flags: []string{"RO", "access"}}
	updates       = keySpec{flags: []string{"RW", "access", "update"}}
)

// useOfKey returns the specification of the i-th of the keys that AppendKeys has found in the arguments.
func (s *Spec) useOfKey(i int, args [][]byte) *keySpec {
	switch s.full {
	case "set":
		if !setReturnsOld(args) {
			return &setOverwrites
		}
		return &updates
	case "bitfield":
		if onlyGets(args) {
			return &fieldReads
		}
		return &updates
	case "migrate": // the keys after KEYS are like the first key
		i = 0
	}
	list := s.facts.keys
	var last *keySpec
	for j := range list {
		if list[j].built {
			continue
		}
		last = &list[j]
		if i == 0 {
			break
		}
		i--
	}
	return last
}

// HasKeys reports whether the command has keys. Channels that are routed like keys do not count.
func (s *Spec) HasKeys() bool {
	list := s.facts.keys
	return len(list) > 0 && !list[0].has("not_key")
}

// writeKeySpecs describes where the keys are and what the command does with them.
func (s *Spec) writeKeySpecs(c *Ctx) {
	w := c.Out
	fields := func(name, kind string, values ...any) {
		w.BulkString(name)
		w.Map(2)
		stringField(w, "type", kind)
		w.BulkString("spec")
		w.Map(len(values) / 2)
		for i := 0; i < len(values); i += 2 {
			w.BulkString(values[i].(string))
			switch v := values[i+1].(type) {
			case int:
				w.Int(int64(v))
			case string:
				w.BulkString(v)
			}
		}
	}
	list := s.facts.keys
	w.Set(len(list))
	for _, k := range list {
		w.Map(3)
		w.BulkString("flags")
		writeWords(c.Out, k.flags)
		switch k.begin {
		case "index":
			fields("begin_search", k.begin, "index", k.at)
		case "keyword":
			fields("begin_search", k.begin, "keyword", k.keyword, "startfrom", k.at)
		default:
			fields("begin_search", k.begin)
		}
		switch k.find {
		case "range":
			fields("find_keys", k.find, "lastkey", k.span[0], "keystep", k.span[1], "limit", k.span[2])
		case "keynum":
			fields("find_keys", k.find, "keynumidx", k.span[0], "firstkey", k.span[1], "keystep", k.span[2])
		default:
			fields("find_keys", k.find)
		}
	}
}
