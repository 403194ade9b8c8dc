package operators

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
)

func load(t *testing.T, args ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(append([]string{"--dir", t.TempDir()}, args...), nil)
	require.NoError(t, err)
	return cfg
}

// The namespaces with the most keys have series, the most keys first; databases that SELECT chooses have none.
func TestNamespaces(t *testing.T) {
	db := enginetest.Open(t)
	for ns, keys := range map[string]int{"small": 1, "large": 3, "also small": 1} {
		for i := range keys {
			key := fmt.Append(nil, i)
			require.NoError(t, db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				_, err := str.Set(tx, key, []byte("v"), str.SetOptions{})
				return err
			}))
		}
	}
	series := func(cfg *config.Config) (list []string) {
		source{&Options{Config: cfg, DB: db}}.namespaces(func(s admin.Series) {
			list = append(list, fmt.Sprintf("%s%v %v", s.Name, s.Labels, s.Value))
		})
		return list
	}
	all := series(load(t))
	keys := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, "namespace_keys") })
	if want := []string{"namespace_keys[namespace large] 3", "namespace_keys[namespace also small] 1",
		"namespace_keys[namespace small] 1"}; !slices.Equal(keys, want) || all[0] != "namespaces[] 3" {
		t.Errorf("%q", all)
	}
	if list := series(load(t, "--redis-databases", "16")); len(list) > 0 {
		t.Errorf("databases: %q", list)
	}
}

func TestConsoleSettings(t *testing.T) {
	settings := map[string]admin.Setting{}
	for _, s := range consoleSettings() {
		settings[s.Name] = s
	}
	const inert = "Has no effect here. "
	for _, tt := range []struct {
		name                      string
		dynamic, protected, inert bool
	}{
		{"port", false, false, false},
		{"backup-dir", true, true, false},
		{"maxclients", true, false, false},
		{"daemonize", false, false, true},
	} {
		s, ok := settings[tt.name]
		if !ok || s.Dynamic != tt.dynamic || s.Protected != tt.protected ||
			strings.HasPrefix(s.Comment+" ", inert) != tt.inert {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
	if s, ok := settings["activedefrag"]; ok {
		t.Errorf("a setting of Redis only: %+v", s)
	}
}

func TestMayCall(t *testing.T) {
	for rules, want := range map[string]bool{"+@all": true, "+kprofile": true, "+@all -@dangerous": false, "": false} {
		u, err := command.ACLTable().NewUser("u", false).Apply(strings.Fields("on nopass " + rules)...)
		require.NoError(t, err)
		if got := mayCall(u, "kprofile"); got != want {
			t.Errorf("%q: %v", rules, got)
		}
	}
}
