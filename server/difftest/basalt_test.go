package difftest

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
)

// startBasalt starts basalt in this process, on an empty database, and stops it
// at the end of the test. It has the 16 databases that redis-server has by
// default. Settings are names and values in turn.
func startBasalt(t testing.TB, settings ...string) target {
	t.Helper()
	return startBasaltOn(t, enginetest.Open(t), settings...)
}

// startBasaltOn is startBasalt on a database.
func startBasaltOn(t testing.TB, db *engine.DB, settings ...string) target {
	t.Helper()
	args := []string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir(), "--redis-databases", "16"}
	for i := 0; i+1 < len(settings); i += 2 {
		args = append(args, "--"+settings[i], settings[i+1])
	}
	cfg, err := config.Load(args, nil)
	require.NoError(t, err)
	s := server.New(cfg, db, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	return s
}
