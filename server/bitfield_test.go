package server

import "testing"

// BITFIELD numbers the bits of a bitmap as Kvrocks does, or, when it is asked to, as SETBIT and Redis do.
func TestBitfieldOrder(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	for _, tt := range []struct{ order, want string }{{"no", "*1\r\n:128\r\n"}, {"yes", "*1\r\n:1\r\n"}, {"no", "*1\r\n:128\r\n"}} {
		c.want("CONFIG SET redis-bitfield-compatible "+tt.order, "+OK\r\n")
		c.do("SETBIT", "b", "7", "1")
		c.want("BITFIELD b GET u8 0", tt.want)
		c.want("BITFIELD_RO b GET u8 0", tt.want)
	}
}
