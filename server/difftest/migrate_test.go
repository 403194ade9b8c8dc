package difftest

import (
	"net"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// TestMigrate moves keys from redis-server and from basalt to redis-server and to basalt: the replies, and what is on
// both servers afterwards, must be the same.
func TestMigrate(t *testing.T) {
	sources := []target{startRedis(t), startBasalt(t)}
	for _, to := range []target{startRedis(t), startBasalt(t)} {
		var lines [2][]string
		for i, from := range sources {
			host, port, err := net.SplitHostPort(to.Addr())
			require.NoError(t, err)
			source := connect(t, from.Addr(), 2)
			other := connect(t, to.Addr(), 2)
			for _, line := range []string{
				"FLUSHALL", "> FLUSHALL",
				"SET s v", "RPUSH l a b c", "HSET h f 1 g 2", "ZADD z 1 a 2.5 b", "SADD set a b c", "SET e v PXAT 32503680000500",
				"SETBIT bits 7 1", "PFADD hll a b c", "XADD x 1-1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >",
				"MIGRATE HOST PORT missing 0 5000",
				"MIGRATE HOST PORT s 0 5000", "EXISTS s", "> GET s", "> TTL s",
				"MIGRATE HOST PORT e 0 5000 COPY", "EXISTS e", "> EXPIRETIME e",
				"MIGRATE HOST PORT e 0 5000", "EXISTS e",
				"MIGRATE HOST PORT e 0 5000 REPLACE", "EXISTS e", "> GET e",
				"> SET set busy",
				`MIGRATE HOST PORT "" 0 5000 KEYS l h z set missing bits hll x`, "EXISTS l h z set bits hll x",
				"> LRANGE l 0 -1", "> HGET h g", "> ZRANGE z 0 -1 WITHSCORES", "> GET set", "> GETBIT bits 7", "> PFCOUNT hll",
				"> XRANGE x - +", "> XPENDING x g - + 10 c",
				`MIGRATE HOST PORT "" 9 5000 REPLACE KEYS set`, "> SELECT 9", "> SCARD set", "> SELECT 0",
				"SET s 2", "MIGRATE HOST PORT s 99 5000", "GET s",
				"MIGRATE HOST PORT s 0 5000 AUTH secret", "GET s",
				"MIGRATE HOST PORT s 0 5000 AUTH2 me", "MIGRATE HOST PORT s 0 5000 KEYS s", "MIGRATE HOST PORT s 0",
				"MIGRATE HOST PORT s 0 x", "MULTI", "SET m 1", "MIGRATE HOST PORT m 0 5000", "EXISTS m", "EXEC", "> GET m",
				`EVAL "redis.call('SET',KEYS[1],'v'); return redis.call('MIGRATE','HOST','PORT',KEYS[1],0,5000)" 1 script`,
				"EXISTS script", "> GET script",
			} {
				c, text := source, line
				if rest, ok := strings.CutPrefix(line, "> "); ok {
					c, text = other, rest
				}
				words, err := splitLine(strings.NewReplacer("HOST", host, "PORT", port).Replace(text))
				require.NoError(t, err)
				got, err := c.do(words...)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if strings.HasPrefix(line, "> XPENDING") { // the idle time differs
					got.raw = got.raw[:20]
				}
				lines[i] = append(lines[i], line+": "+string(got.raw))
			}
		}
		for i := range lines[0] {
			if lines[0][i] != lines[1][i] {
				t.Errorf("to %s: redis %q\nbasalt %q", to.Addr(), lines[0][i], lines[1][i])
			}
		}
	}
}
