package session_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// Redis runs one command at a time, so all clients see all commands in one order, in which the commands of each client
// keep theirs. The tests below are the litmus tests for memory models that tell such an order from weaker ones
// (Alglave, Maranget, Sarkar, Sewell: Litmus: Running Tests against Hardware, 2011), with commands in place of loads
// and stores.

// A register is a kind of key that holds a number.
type register struct{ name, write, read string }

var registers = []register{
	{"string", "SET KEY VALUE", "GET KEY"},
	{"long string", "SET KEY " + strings.Repeat("0", 3000) + "VALUE", "GET KEY"},
	{"range", "SETRANGE KEY 0 VALUE", "GETRANGE KEY 0 -1"},
	{"hash", "HSET KEY f VALUE", "HGET KEY f"},
	{"whole hash", "HSET KEY f VALUE", "HGETALL KEY"},
	{"list", "LSET KEY 0 VALUE", "LRANGE KEY 0 -1"},
	{"sorted set", "ZADD KEY VALUE m", "ZSCORE KEY m"},
}

// of fills the key and the value, which has nine digits, into a command.
func (r register) of(command, key string, value int) string {
	return servertest.Pipeline(strings.NewReplacer("KEY", key, "VALUE", fmt.Sprintf("1%08d", value)).Replace(command))
}

// number returns the value in a reply to read.
func (r register) number(t *testing.T, reply string) int {
	t.Helper()
	reply = strings.TrimSuffix(reply, "\r\n")
	n, err := strconv.Atoi(reply[max(len(reply)-8, 0):])
	if err != nil {
		t.Fatalf("%s: %q is no number", r.name, reply)
	}
	return n
}

// ordered is a server with registers of each kind, whose values are 0.
func ordered(t *testing.T) (*servertest.Harness, []string) {
	h := servertest.Start(t)
	c := h.Dial(t)
	var keys []string
	for i := range 4 {
		keys = append(keys, fmt.Sprint("key:", i))
	}
	for i, r := range registers {
		for _, k := range keys {
			if r.name == "list" {
				c.Do("RPUSH", fmt.Sprint(i, k), "x")
			}
			c.Send(r.of(r.write, fmt.Sprint(i, k), 0))
			c.Reply()
		}
	}
	return h, keys
}

// TestOrderOfWrites is message passing: a client writes n to one key and then to another one, in one pipeline or in
// two. A pipeline that reads the second key and then the first one must not find the first one older.
func TestOrderOfWrites(t *testing.T) {
	h, keys := ordered(t)
	rounds := 3000
	if testing.Short() {
		rounds = 600
	}
	long := register{"a string in memory and one that is not", "SET KEY " + strings.Repeat("0", 100_000) + "VALUE",
		"GET KEY"}
	betweens := []string{"", servertest.Pipeline("SET other 1"), servertest.Pipeline("INCR count", "GET other")}
	for ri, r := range append(registers, long) {
		t.Run(r.name, func(t *testing.T) {
			var wg sync.WaitGroup
			done := make(chan struct{})
			a, b := fmt.Sprint(ri, keys[0]), fmt.Sprint(ri, keys[1])
			first := r
			if ri == len(registers) {
				first = registers[0] // in the record cache
			}
			c := h.Dial(t)
			c.Send(first.of(first.write, a, 0) + r.of(r.write, b, 0))
			c.Reply()
			c.Reply()
			for _, between := range betweens {
				c := h.Dial(t)
				n := strings.Count(between, "*")
				wg.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						c.Send(r.of(r.read, b, 0) + between + first.of(first.read, a, 0))
						second := r.number(t, c.Reply())
						for range n {
							c.Reply()
						}
						if got := first.number(t, c.Reply()); got < second {
							t.Errorf("%d was written to %s and then to %s, %s is still %d", second, a, b, a, got)
							return
						}
					}
				})
			}
			for i := 1; i <= rounds; i++ {
				c.Send(first.of(first.write, a, i))
				if i%2 == 0 {
					c.Reply()
				}
				c.Send(r.of(r.write, b, i))
				c.Reply()
				if i%2 != 0 {
					c.Reply()
				}
			}
			close(done)
			wg.Wait()
		})
	}
}

// TestOrderOfPipelines has two clients, each of which writes one key and reads the other one's in one pipeline. At
// least one must find what the other one has written (store buffering). If both read first, at least one finds the old
// value (load buffering).
func TestOrderOfPipelines(t *testing.T) {
	h, keys := ordered(t)
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	for ri, r := range registers {
		t.Run(r.name, func(t *testing.T) {
			a, b := fmt.Sprint(ri, keys[2]), fmt.Sprint(ri, keys[3])
			one, two := h.Dial(t), h.Dial(t)
			rnd := rand.New(rand.NewPCG(1, uint64(ri)))
			for i := 1; i <= rounds; i++ {
				readsFirst := i%2 == 0
				// Other commands around the two vary who is first.
				filler := func() string { return strings.Repeat(servertest.Pipeline("SET filler 1"), rnd.IntN(3)) }
				program := func(own, others string) string {
					parts := []string{r.of(r.write, own, i), r.of(r.read, others, 0)}
					if readsFirst {
						parts[0], parts[1] = parts[1], parts[0]
					}
					return filler() + parts[0] + filler() + parts[1] + filler() + servertest.Pipeline("PING")
				}
				programs := [2]string{program(a, b), program(b, a)}
				var found [2]int
				var wg sync.WaitGroup
				for n, c := range []*servertest.Client{one, two} {
					wg.Go(func() {
						c.Send(programs[n])
						for {
							reply := c.Reply()
							if reply == "+PONG\r\n" {
								return
							}
							if strings.HasSuffix(reply, fmt.Sprintf("1%08d\r\n", i)) {
								found[n] = i
							}
						}
					})
				}
				wg.Wait()
				switch {
				case readsFirst && found[0] == i && found[1] == i:
					t.Fatalf("round %d: each has read what the other one wrote later", i)
				case !readsFirst && found[0] != i && found[1] != i:
					t.Fatalf("round %d: neither has read what the other one wrote", i)
				}
			}
		})
	}
}
