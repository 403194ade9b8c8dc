package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestRandomSort runs random SORTs over lists, sets and sorted sets of numbers and words, with weights in strings
// and hashes.
func TestRandomSort(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		commands := sortFixture(r)
		for range 150 {
			commands = append(commands, randomSort(r)...)
		}
		for i := range commands {
			commands[i].where = fmt.Sprintf("seed %d", seed)
		}
		diffTo(t, "", redis, basalt, 2+seed%2, seed%4 < 2, commands)
	}
}

// sortFixture makes the keys. Weights differ: the order of elements with equal ones is not defined with ALPHA.
func sortFixture(r *rand.Rand) []command {
	var all []command
	add := func(args ...string) { all = append(all, newCommand("", args...)) }
	add("FLUSHALL")
	for _, kind := range []string{"numbers", "words"} {
		n := []int{1, 5, 60, 400}[r.IntN(4)]
		for i, v := range r.Perm(2 * n)[:n] {
			elem := strconv.Itoa(v - n/2)
			if kind == "words" {
				elem = fmt.Sprintf("%c%d", 'a'+v%26, v)
			}
			add("RPUSH", "list "+kind, elem)
			add("SADD", "set "+kind, elem)
			add("ZADD", "zset "+kind, strconv.Itoa(r.IntN(n)), elem)
			add("SET", "w_"+elem, strconv.FormatFloat(float64(r.IntN(10*n))+float64(i)/1000, 'f', -1, 64))
			if r.IntN(4) > 0 {
				add("HSET", "h_"+elem, "n", strconv.Itoa(r.IntN(20)), "s", fmt.Sprintf("%c%d", 'a'+r.IntN(26), i))
			}
		}
	}
	return all
}

func randomSort(r *rand.Rand) []command {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := pick("SORT", "SORT", "SORT_RO")
	kind := pick("list", "set", "zset")
	args := []string{name, kind + pick(" numbers", " words")}
	if r.IntN(30) == 0 {
		args[1] = pick("missing", "w_1", "h_1")
	}
	mode := exact
	// With ALPHA every element has to have a weight of its own.
	switch by := pick("", "", "w_*", "h_*->n", "h_*->s", "nosort", "none_*"); {
	case by == "nosort":
		args = append(args, "BY", by)
		if kind == "set" {
			mode = set
		}
	case by == "w_*" && r.IntN(2) == 0:
		args = append(args, "BY", by, "ALPHA")
	case by != "":
		args = append(args, "BY", by)
	case r.IntN(2) == 0:
		args = append(args, "ALPHA")
	}
	if r.IntN(3) == 0 {
		args = append(args, pick("ASC", "DESC"))
	}
	if mode == exact && r.IntN(2) == 0 {
		args = append(args, "LIMIT", strconv.Itoa(r.IntN(80)-5), strconv.Itoa(r.IntN(100)-3))
	}
	if mode == exact {
		for range r.IntN(4) {
			args = append(args, "GET", pick("#", "w_*", "h_*->s", "h_*->n", "none_*", "nostar", "h_*"))
		}
	}
	if name == "SORT" && r.IntN(3) == 0 {
		args = append(args, "STORE", "dst")
		store, read := newCommand("", args...), newCommand("", "LRANGE", "dst", "0", "-1")
		return []command{store, read, newCommand("", "TYPE", "dst")}
	}
	c := newCommand("", args...)
	c.mode = mode
	return []command{c}
}
