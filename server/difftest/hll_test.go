package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestRandomHyperLogLog compares what PFADD replies, the estimates while HyperLogLogs grow from nothing to some
// hundred thousand elements, and their registers.
func TestRandomHyperLogLog(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	size := 300_000
	if testing.Short() {
		size = 50_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	var commands []command
	add := func(args ...string) { commands = append(commands, newCommand(strconv.Itoa(len(commands)), args...)) }
	add("FLUSHALL")
	element := func() string {
		b := make([]byte, r.IntN(24))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	for n, batch := 0, 1; n < size; n += batch {
		key := "h" + strconv.Itoa(r.IntN(4))
		args := []string{"PFADD", key}
		for range batch {
			args = append(args, element())
		}
		add(args...)
		add("PFADD", key, element())
		add("PFADD", key, args[len(args)-1])
		add("PFCOUNT", key)
		if r.IntN(4) == 0 {
			add("PFCOUNT", "h0", "h1", "h2", "h3")
			add("PFMERGE", "m", key)
			add("PFCOUNT", "m")
		}
		batch = 1 + n/50
	}
	for _, key := range []string{"h0", "h1", "h2", "h3", "m"} {
		add("PFDEBUG", "GETREG", key)
	}
	for _, proto := range []int{2, 3} {
		diffTo(t, fmt.Sprintf("RESP%d", proto), redis, basalt, proto, proto == 2, commands)
	}
}
