package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestFullDiskIsShown: while the disk is full, INFO, the metrics and the health check say so.
func TestFullDiskIsShown(t *testing.T) {
	disk := enginetest.MountSmall(t, 32<<20)
	ro := engine.DefaultRocksOptions()
	ro.WriteBufferSize = 1 << 20
	h := startBeside(t, engine.Options{Dir: disk + "/db", Rocks: ro}, "admin-listen", "127.0.0.1:0")
	c := h.Dial(t)
	shows := func(writes, background, metric string, ready int) bool {
		info, _ := servertest.ParseInfo(t, c.Do("INFO", "persistence"))
		_, metrics := get(h, t, "/metrics", "", "")
		status, _ := get(h, t, "/readyz", "", "")
		return info["aof_last_write_status"] == writes && strings.Contains(info["background_error"], background) &&
			strings.Contains(metrics, "\n"+metric+"\n") && status == ready
	}
	if !shows("ok", "", "basalt_aof_last_write_ok 1", 200) {
		t.Error("a server that writes says that it does not")
	}
	enginetest.FillDisk(t, disk+"/ballast")
	c.Do("SET", "key", strings.Repeat("v", 100_000))
	c.Do("FLUSHMEMTABLE")
	servertest.Eventually(t, "the full disk is shown", func() bool {
		return shows("err", "No space left on device", "basalt_aof_last_write_ok 0", 503)
	})
	c.Want("PING", "+PONG\r\n")
	require.NoError(t, os.Remove(disk+"/ballast"))
	servertest.Eventually(t, "the server writes again", func() bool {
		return shows("ok", "", "basalt_aof_last_write_ok 1", 200)
	})
	c.Want("SET key value", "+OK\r\n")
}
