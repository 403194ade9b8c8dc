package difftest

import "testing"

// TestAuth compares sessions of clients of a server with a password. The
// protocol's tighter limits before AUTH are part of it.
func TestAuth(t *testing.T) {
	redis, basalt := startRedis(t, "--requirepass", "secret"), startBasalt(t, "requirepass", "secret")
	for _, in := range []string{
		"PING\r\nGET a\r\nNOSUCH a\r\nGET\r\nHELLO 3\r\nHELLO 2\r\nSELECT 0\r\nRESET\r\n",
		"AUTH wrong\r\nPING\r\n",
		"AUTH\r\nAUTH a b c\r\nAUTH default wrong\r\nAUTH nobody secret\r\nPING\r\n",
		"AUTH secret\r\nPING\r\nSET a 1\r\nGET a\r\nAUTH wrong\r\nGET a\r\n",
		"AUTH default secret\r\nGET missing\r\n",
		"HELLO 3 AUTH default wrong\r\nGET missing\r\n",
		"HELLO 3 AUTH nobody secret\r\nGET missing\r\n",
		"HELLO 2 SETNAME x\r\n",
		"AUTH secret\r\nRESET\r\nGET a\r\n",
		"QUIT\r\nPING\r\n",
		"*10\r\n" + "$4\r\nPING\r\n" + repeat("$1\r\nx\r\n", 9),
		"*11\r\n" + "$4\r\nPING\r\n" + repeat("$1\r\nx\r\n", 10),
		"*2\r\n$4\r\nAUTH\r\n$16384\r\n" + repeat("x", 16384) + "\r\n",
		"*2\r\n$4\r\nAUTH\r\n$16385\r\n" + repeat("x", 16385) + "\r\n",
		"AUTH secret\r\n*12\r\n$4\r\nMGET\r\n" + repeat("$1\r\nx\r\n", 11) + "PING\r\n",
		"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*2\r\n$4\r\nECHO\r\n$20000\r\n" + repeat("x", 20000) + "\r\n",
	} {
		compareExchange(t, redis, basalt, in)
	}
}
