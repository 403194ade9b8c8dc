package torture

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// reader reads whole collections and compares their counters with the number of members read.
type reader struct{ c *redisclient.Conn }

// counted returns an error if the reply of the command counter, such as HLEN, is not the number of members read.
func (r reader) counted(counter, key string, members int) error {
	v, err := r.c.Do(counter, key)
	if err != nil {
		return fmt.Errorf("%s %s: %w", counter, key, err)
	}
	if v.Int != int64(members) {
		return fmt.Errorf("%s %s is %d, but %d members were read", counter, key, v.Int, members)
	}
	return nil
}

func (r reader) get(s *state, key string) error {
	v, err := r.c.Do("GET", key)
	if err == nil && !v.Null {
		s.strings[key] = v.String()
	}
	return err
}

func (r reader) hash(s *state, key string) error {
	l, err := r.c.Strings("HGETALL", key)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(l); i += 2 {
		s.set(key, l[i], l[i+1])
	}
	if len(s.members[key]) != len(l)/2 {
		return fmt.Errorf("HGETALL %s holds a field twice", key)
	}
	return r.counted("HLEN", key, len(l)/2)
}

func (r reader) list(s *state, key string) error {
	l, err := r.c.Strings("LRANGE", key, "0", "-1")
	if err != nil {
		return err
	}
	s.setList(key, l)
	return r.counted("LLEN", key, len(l))
}

func (r reader) set(s *state, key string) error {
	l, err := r.c.Strings("SMEMBERS", key)
	if err != nil {
		return err
	}
	for _, m := range l {
		s.set(key, m, "")
	}
	if len(s.members[key]) != len(l) {
		return fmt.Errorf("SMEMBERS %s holds a member twice", key)
	}
	return r.counted("SCARD", key, len(l))
}

// zset reads a sorted set by score, and then the score of each member: Kvrocks's
// disk format stores each score twice, and both must agree.
func (r reader) zset(s *state, key string) error {
	l, err := r.c.Strings("ZRANGE", key, "0", "-1", "WITHSCORES")
	if err != nil {
		return err
	}
	ask := []string{"ZMSCORE", key}
	for i := 0; i+1 < len(l); i += 2 {
		if _, err := strconv.Atoi(l[i+1]); err != nil {
			return fmt.Errorf("ZRANGE %s: score %q of %q is not an integer", key, l[i+1], l[i])
		}
		s.set(key, l[i], l[i+1])
		ask = append(ask, l[i])
	}
	if len(s.members[key]) != len(l)/2 {
		return fmt.Errorf("ZRANGE %s holds a member twice", key)
	}
	if len(l) > 0 {
		scores, err := r.c.Strings(ask...)
		if err != nil {
			return err
		}
		for i, score := range scores {
			if score != l[2*i+1] {
				return fmt.Errorf("%s: member %s has score %s by ZRANGE and %q by ZMSCORE", key, l[2*i], l[2*i+1], score)
			}
		}
	}
	return r.counted("ZCARD", key, len(l)/2)
}

// read reads the keys that a writer owns.
func (r reader) read(g *generator) (*state, error) {
	s := newState()
	strings, hashes, lists, sets, zsets := g.ownKeys()
	for _, part := range []struct {
		keys []string
		read func(*state, string) error
	}{{strings, r.get}, {hashes, r.hash}, {lists, r.list}, {sets, r.set}, {zsets, r.zset}} {
		for _, key := range part.keys {
			if err := part.read(s, key); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// share copies each member of the shared collections to the state of its writer,
// which the member's prefix names. A member of an unknown writer is an error.
func share(shared *state, states map[string]*state) error {
	owner := func(key, member string) (*state, error) {
		id, _, found := strings.Cut(member, ":")
		if s := states[id+":"]; found && s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("%s holds %q, which no writer has written", key, shorten(member))
	}
	for key, members := range shared.members {
		for m, v := range members {
			s, err := owner(key, m)
			if err != nil {
				return err
			}
			s.set(key, m, v)
		}
	}
	for _, v := range shared.lists[sharedList] {
		s, err := owner(sharedList, v)
		if err != nil {
			return err
		}
		s.lists[sharedList] = append(s.lists[sharedList], v)
	}
	return nil
}

// verify compares the server's data with the states that the writers expect.
func verify(c *redisclient.Conn, writers []*writer) error {
	r := reader{c}
	states := map[string]*state{}
	for _, w := range writers {
		s, err := r.read(&w.gen)
		if err != nil {
			return err
		}
		states[w.gen.id] = s
	}
	shared := newState()
	for _, read := range []func() error{
		func() error { return r.hash(shared, sharedHash) },
		func() error { return r.list(shared, sharedList) },
		func() error { return r.set(shared, sharedSet) },
		func() error { return r.zset(shared, sharedZset) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	if err := share(shared, states); err != nil {
		return err
	}
	for _, w := range writers {
		if err := w.settle(states[w.gen.id]); err != nil {
			return err
		}
		w.inFlight = nil
	}
	return trimSharedList(c, writers, len(shared.lists[sharedList]))
}

// trimSharedList deletes the shared list when it is long. The writers do not pop
// from it, because a writer could not predict the element.
func trimSharedList(c *redisclient.Conn, writers []*writer, length int) error {
	const limit = 5000
	if length <= limit {
		return nil
	}
	v, err := c.Do("DEL", sharedList)
	if err != nil {
		return err
	}
	if v.Kind != ':' || v.Int != 1 {
		return fmt.Errorf("DEL %s replied %s", sharedList, render(v))
	}
	for _, w := range writers {
		w.expect.drop(sharedList)
	}
	return nil
}
