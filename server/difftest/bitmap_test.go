package difftest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestRandomBitmaps runs random commands on bitmaps and strings, small ones and some of many fragments.
func TestRandomBitmaps(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for seed := range rounds {
		g := bitGenerator{rand.New(rand.NewPCG(uint64(seed), 5)), []int{100, 3000, 30000, 400000}[seed%4]}
		diffTo(t, fmt.Sprintf("seed %d", seed), redis, basalt, 2+seed%2, seed%3 > 0, g.commands(1500))
	}
}

// TestRandomBitSyntax runs commands on strings that are random in their words: what is refused, and how, is the same.
func TestRandomBitSyntax(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for seed := range rounds {
		g := bitGenerator{rand.New(rand.NewPCG(uint64(seed), 6)), 300}
		diffTo(t, fmt.Sprintf("seed %d", seed), redis, basalt, 2+seed%2, false, g.spoilt(2000))
	}
}

// spoilt returns n commands, most of which have words that are wrong, missing or too many. They work on strings that
// exist, on which Redis 7.0 and 7.2 look at the same words.
func (g bitGenerator) spoilt(n int) []command {
	out := []command{newCommand("start", "FLUSHALL"), newCommand("list", "RPUSH", "l", "x")}
	for i := range 4 {
		out = append(out, newCommand("string", "SET", "s"+strconv.Itoa(i), g.value()))
	}
	words := []string{"", "0", "1", "2", "-1", "01", "+1", " 1", "1 ", "1.5", "x", "4294967295", "4294967296",
		"18446744073709551616", "9223372036854775807", "-9223372036854775808",
		"#", "#0", "#1", "#-1", "#x", "u", "i", "u0", "u1", "U8", "u08", "u63", "u64", "i64", "i65", "i-1", "u 8", "u8x",
		"GET", "set", "INCRBY", "OVERFLOW", "wrap", "SAT", "FAIL", "BIT", "byte", "AND", "not", "l", "s0"}
	for i := range n {
		key := "s" + strconv.Itoa(g.IntN(4))
		var args []string
		switch g.IntN(7) {
		case 0:
			args = []string{"SETBIT", key, g.bit(), "1"}
		case 1:
			args = []string{"GETBIT", key, g.bit()}
		case 2:
			args = []string{"BITCOUNT", key, strconv.Itoa(g.IntN(50) - 25), strconv.Itoa(g.IntN(50) - 25),
				"BIT"}[:2+2*g.IntN(2)+g.IntN(2)]
		case 3:
			args = []string{"BITPOS", key, strconv.Itoa(g.IntN(2)), g.position(50), g.position(50), "BYTE"}[:3+g.IntN(4)]
		case 4:
			args = append([]string{"BITOP", "OR", "d"}, []string{"s0", "s1", "s2"}[:1+g.IntN(3)]...)
			args[1] = []string{"AND", "OR", "XOR", "NOT"}[g.IntN(4)]
		default:
			args = []string{[]string{"BITFIELD", "BITFIELD_RO"}[g.IntN(2)], key}
			for range 1 + g.IntN(3) {
				args = append(args, g.field(args[0] == "BITFIELD_RO")...)
			}
		}
		for range g.IntN(3) {
			at := 2 + g.IntN(max(len(args)-2, 1))
			switch word := words[g.IntN(len(words))]; {
			case at >= len(args) || g.IntN(4) == 0 || args[0] == "BITOP" && at == 2: // its destination is left alone
				args = append(args, word)
			case g.IntN(4) == 0:
				args = append(args[:at], args[at+1:]...)
			case args[0] == "SETBIT" && at == 2 && len(word) > 4, args[0] == "BITFIELD" && len(word) > 4: // a string of 512 MiB
			default:
				args[at] = word
			}
		}
		out = append(out, newCommand(strconv.Itoa(i), args...), newCommand("after "+strconv.Itoa(i), "GET", key))
	}
	return out
}

type bitGenerator struct {
	*rand.Rand
	far int // bits are below this number
}

func (g bitGenerator) bit() string { return strconv.Itoa(g.near(g.far)) }

// near is a number below n, often at the edge of a fragment.
func (g bitGenerator) near(n int) int {
	if g.IntN(4) == 0 {
		return min(max(g.IntN(n/8192+1)*8192+g.IntN(20)-10, 0), n-1)
	}
	return g.IntN(n)
}

func (g bitGenerator) position(n int) string { return strconv.Itoa(g.near(2*n) - n) }

func (g bitGenerator) value() string {
	b := make([]byte, g.IntN(40))
	for i := range b {
		b[i] = byte(g.Uint32() & g.Uint32())
	}
	return string(b)
}

func (g bitGenerator) field(read bool) []string {
	width := 1 + g.IntN(63)
	args := []string{[]string{"GET", "SET", "INCRBY"}[g.IntN(3)], []string{"u", "i"}[g.IntN(2)] + strconv.Itoa(width),
		g.bit()}
	if g.IntN(4) == 0 {
		args[2] = "#" + strconv.Itoa(g.near(g.far)/width)
	}
	if read {
		args[0] = "GET"
	}
	if args[0] != "GET" {
		args = append(args, strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10))
		if g.IntN(2) == 0 {
			args = append([]string{"OVERFLOW", []string{"WRAP", "SAT", "FAIL"}[g.IntN(3)]}, args...)
		}
	}
	return args
}

// commands returns n random commands. The keys k are bitmaps and strings, s strings, and f bitmaps on which BITFIELD
// alone works.
func (g bitGenerator) commands(n int) []command {
	out := []command{newCommand("start", "FLUSHALL")}
	add := func(args ...string) { out = append(out, newCommand(strconv.Itoa(len(out)), args...)) }
	key := func(kind string) string { return kind + strconv.Itoa(g.IntN(4)) }
	for i := range 4 {
		add("SET", "s"+strconv.Itoa(i), "text")
	}
	any := func() string { return key([]string{"k", "k", "s"}[g.IntN(3)]) }
	for i := range n {
		switch g.IntN(20) {
		case 0, 1, 2, 3:
			add("SETBIT", any(), g.bit(), strconv.Itoa(g.IntN(2)))
		case 4:
			add("GETBIT", any(), g.bit())
		case 5:
			add("BITCOUNT", any())
		case 6:
			add("BITCOUNT", any(), g.position(g.far/8+9), g.position(g.far/8+9))
		case 7:
			add("BITCOUNT", any(), g.position(g.far), g.position(g.far), "BIT")
		case 8:
			add("BITPOS", any(), strconv.Itoa(g.IntN(2)), g.position(g.far/8+9))
		case 9:
			add("BITPOS", any(), strconv.Itoa(g.IntN(2)), g.position(g.far), g.position(g.far), "BIT")
		case 10:
			add("BITPOS", any(), strconv.Itoa(g.IntN(2)))
		case 11, 12:
			op := []string{"AND", "OR", "XOR", "NOT"}[g.IntN(4)]
			args := []string{"BITOP", op, key("k"), any()}
			for op != "NOT" && g.IntN(2) == 0 {
				args = append(args, any())
			}
			add(args...)
		case 13, 14:
			target := key([]string{"f", "s"}[g.IntN(2)])
			args := []string{"BITFIELD", target}
			if g.IntN(3) == 0 {
				args = []string{"BITFIELD_RO", target}
			}
			for range 1 + g.IntN(4) {
				args = append(args, g.field(args[0] == "BITFIELD_RO")...)
			}
			add(args...)
			add("STRLEN", target)
		case 15:
			add("GETRANGE", any(), g.position(g.far/8+9), g.position(g.far/8+9))
		case 16:
			add("GET", any())
		case 17:
			add("STRLEN", any())
		case 18:
			switch g.IntN(8) {
			case 0:
				add("APPEND", any(), g.value())
			case 1:
				add("SETRANGE", any(), strconv.Itoa(g.near(g.far)/8), g.value())
			case 2:
				add("DEL", key("k"), key("f"))
			case 3:
				add("SET", any(), g.value(), "GET")
			case 4:
				add("INCR", any())
			case 5:
				add("GETDEL", key("k"))
			case 6:
				add("COPY", key("k"), key("k"), "REPLACE")
			case 7:
				add("RENAME", key("f"), key("f"))
			}
		case 19:
			add("MGET", "k0", "k1", "k2", "k3", "s0", "s1", "s2", "s3")
		}
		if i%200 == 199 {
			add(strings.Fields("MGET k0 k1 k2 k3 s0 s1 s2 s3")...)
		}
	}
	return out
}
