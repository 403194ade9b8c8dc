package server_test

import (
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
)

// BITFIELD numbers the bits of a byte like Kvrocks, or, with redis-bitfield-compatible, like SETBIT and Redis.
func TestBitfieldOrder(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, tt := range []struct{ order, want string }{{"no", "*1\r\n:128\r\n"}, {"yes", "*1\r\n:1\r\n"},
		{"no", "*1\r\n:128\r\n"}} {
		c.Want("CONFIG SET redis-bitfield-compatible "+tt.order, "+OK\r\n")
		c.Do("SETBIT", "b", "7", "1")
		c.Want("BITFIELD b GET u8 0", tt.want)
		c.Want("BITFIELD_RO b GET u8 0", tt.want)
	}
}

// By default BITFIELD numbers the bits like the program that has created the database.
func TestBitfieldOrderOfDatabase(t *testing.T) {
	check := func(c *servertest.Client, want string) {
		t.Helper()
		c.Do("DEL", "b")
		c.Do("SETBIT", "b", "7", "1")
		c.Want("BITFIELD b GET u8 0", want)
		c.Want("BITFIELD b SET u8 0 64 GET u8 0", "*2\r\n"+want[4:]+":64\r\n")
		c.Want("BITFIELD b GET u8 0", "*1\r\n:64\r\n")
	}
	kvrocks, _ := serveFixture(t)
	c := kvrocks.Dial(t)
	c.Want("AUTH "+fixture.Password, "+OK\r\n")
	check(c, "*1\r\n:128\r\n")

	db := enginetest.OpenPlain(t, engine.Options{Dir: t.TempDir() + "/db", RedisBitOrder: true})
	s := server.New(servertest.Config(t), db, zap.NewNop())
	require.NoError(t, s.Start())
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	check((&servertest.Harness{Server: s, DB: db}).Dial(t), "*1\r\n:1\r\n")
}
