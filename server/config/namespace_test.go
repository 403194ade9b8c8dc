package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

func TestNamespaces(t *testing.T) {
	c := load(t, "-c", write(t, "k.conf", "requirepass p\nmasterauth m\n"))
	long := strings.Repeat("x", 256)
	for _, step := range []struct {
		do   func() error
		want error
	}{
		{func() error { return c.AddNamespace("a", "ta") }, nil},
		{func() error { return c.AddNamespace("a", "ta") }, nil},
		{func() error { return c.AddNamespace("a", "tb") }, ErrNamespaceExists},
		{func() error { return c.AddNamespace("b", "ta") }, ErrTokenExists},
		{func() error { return c.AddNamespace("b", "p") }, ErrTokenIsPassword},
		{func() error { return c.AddNamespace("b", "m") }, ErrTokenIsPassword},
		{func() error { return c.AddNamespace("b", "") }, ErrTokenEmpty},
		{func() error { return c.AddNamespace("", "tb") }, ErrNamespaceLength},
		{func() error { return c.AddNamespace(long, "tb") }, ErrNamespaceLength},
		{func() error { return c.AddNamespace(long[1:], "tl") }, nil},
		{func() error { return c.AddNamespace("b\x7f", "tb") }, ErrNamespaceLetter},
		{func() error { return c.AddNamespace("__namespace", "tb") }, ErrNamespaceAddDefault},
		{func() error { return c.SetNamespace("a", "ta2") }, nil},
		{func() error { return c.SetNamespace("c", "tc") }, nil},
		{func() error { return c.SetNamespace("c", "ta2") }, ErrTokenExists},
		{func() error { return c.DeleteNamespace("x") }, ErrNamespaceNotFound},
		{func() error { return c.DeleteNamespace("__namespace") }, ErrNamespaceDelDefault},
		{func() error { return c.DeleteNamespace(long[1:]) }, nil},
	} {
		if err := step.do(); err != step.want {
			t.Errorf("error is %v, not %v", err, step.want)
		}
	}
	if want := map[string]string{"a": "ta2", "c": "tc"}; !reflect.DeepEqual(c.Namespaces(), want) {
		t.Errorf("namespaces are %v", c.Namespaces())
	}
	if want := "requirepass p\nmasterauth m\nnamespace.a ta2\nnamespace.c tc\n"; readBack(t, c) != want {
		t.Errorf("the file is %q", readBack(t, c))
	}
	if err := Default().AddNamespace("a", "t"); err != ErrNamespaceNoPass {
		t.Errorf("without requirepass: %v", err)
	}
	cluster, _ := Load([]string{"--requirepass", "p", "--cluster-enabled", "yes"}, nil)
	if err := cluster.AddNamespace("a", "t"); err != ErrNamespaceCluster {
		t.Errorf("in cluster mode: %v", err)
	}
	for _, args := range [][]string{{"--requirepass", "p"}, {"--requirepass", "p", "--namespace.a", "t"}} {
		nowhere, err := Load(args, nil)
		require.NoError(t, err)
		for i, err := range []error{nowhere.AddNamespace("b", "t2"), nowhere.SetNamespace("a", "t2"),
			nowhere.DeleteNamespace("a")} {
			if err != ErrNamespaceNowhere {
				t.Errorf("%q, change %d without a file: %v", args, i, err)
			}
		}
	}
}

// memStore is a NamespaceStore that can be full.
type memStore struct {
	tokens map[string]string
	err    error
}

func (m *memStore) LoadNamespaces() (map[string]string, error) { return m.tokens, nil }

func (m *memStore) StoreNamespaces(tokens map[string]string) error {
	if m.err == nil {
		m.tokens = maps.Clone(tokens)
	}
	return m.err
}

// TestNamespaceStore follows the namespaces between the file and the database.
func TestNamespaceStore(t *testing.T) {
	c := load(t, "-c", write(t, "k.conf", "requirepass p\nnamespace.f tf\nnamespace.g tg\n"))
	db := &memStore{}
	check := func(step string, err error, want string, tokens, stored map[string]string, inFile bool) {
		t.Helper()
		if text := fmt.Sprint(err); text != want {
			t.Errorf("%s: %s, not %s", step, text, want)
		}
		if !maps.Equal(c.Namespaces(), tokens) || !maps.Equal(db.tokens, stored) {
			t.Errorf("%s: namespaces %v, in the database %v", step, c.Namespaces(), db.tokens)
		}
		if strings.Contains(readBack(t, c), "namespace.") != inFile {
			t.Errorf("%s: the file is %q", step, readBack(t, c))
		}
	}
	type m = map[string]string
	none := m{}
	check("store", c.UseNamespaceStore(db), "<nil>", m{"f": "tf", "g": "tg"}, none, true)
	db.err = errors.New("disk full")
	check("yes, disk full", c.Set("repl-namespace-enabled", "yes"),
		"CONFIG SET failed (possibly related to argument 'repl-namespace-enabled') - disk full", m{"f": "tf",
			"g": "tg"}, none, true)
	if c.Bool("repl-namespace-enabled") {
		t.Error("a change that failed is in force")
	}
	db.err = nil
	// What the database has is kept; what the file says wins.
	db.tokens = m{"d": "td", "f": "other", "e": "tg"}
	check("yes", c.Set("repl-namespace-enabled", "yes"), "<nil>", m{"d": "td", "f": "tf", "g": "tg"},
		m{"d": "td", "f": "tf", "g": "tg"}, false)
	if !strings.Contains(readBack(t, c), "repl-namespace-enabled yes\n") {
		t.Errorf("the file is %q", readBack(t, c))
	}
	check("no", c.Set("repl-namespace-enabled", "no"),
		"CONFIG SET failed (possibly related to argument 'repl-namespace-enabled') - cannot switch off "+
			"repl_namespace_enabled when namespaces exist in db",
		m{"d": "td", "f": "tf", "g": "tg"}, m{"d": "td", "f": "tf", "g": "tg"}, false)
	check("add", c.AddNamespace("n", "tn"), "<nil>", m{"d": "td", "f": "tf", "g": "tg", "n": "tn"},
		m{"d": "td", "f": "tf", "g": "tg", "n": "tn"}, false)
	db.err = errors.New("disk full")
	check("add, disk full", c.AddNamespace("o", "to"), "disk full", m{"d": "td", "f": "tf", "g": "tg", "n": "tn"},
		m{"d": "td", "f": "tf", "g": "tg", "n": "tn"}, false)
	db.err = nil
	for _, name := range []string{"d", "f", "g", "n"} {
		if err := c.DeleteNamespace(name); err != nil {
			t.Error(err)
		}
	}
	check("empty", nil, "<nil>", none, none, false)
	check("no again", c.Set("repl-namespace-enabled", "no"), "<nil>", none, none, false)
	check("add to the file", c.AddNamespace("n", "tn"), "<nil>", m{"n": "tn"}, none, true)

	// A file that cannot be written leaves everything as it was.
	require.NoError(t, os.Mkdir(c.File()+".tmp", 0o755))
	if err := c.AddNamespace("o", "to"); err == nil || !strings.HasPrefix(err.Error(), "Rewriting config file: ") {
		t.Errorf("a file that cannot be written: %v", err)
	}
	check("no file", nil, "<nil>", m{"n": "tn"}, none, true)
	if err := c.Set("repl-namespace-enabled", "yes"); err == nil {
		t.Error("namespaces leave a file that cannot be written")
	}
	check("no file, yes", nil, "<nil>", m{"n": "tn"}, none, true)
	require.NoError(t, os.Remove(c.File()+".tmp"))

	// At the start.
	for _, tt := range []struct {
		args []string
		want error
	}{
		{[]string{"--requirepass", "p"}, ErrNamespacesStored},
		{[]string{"--requirepass", "p", "--repl-namespace-enabled", "yes"}, nil},
		{[]string{"--repl-namespace-enabled", "yes"}, nil},
		{[]string{"--repl-namespace-enabled", "yes", "--redis-databases", "2"}, ErrStoredDatabases},
		{[]string{"--cluster-enabled", "yes"}, nil},
	} {
		c, err := Load(tt.args, nil)
		require.NoError(t, err)
		if err := c.UseNamespaceStore(&memStore{tokens: m{"d": "td"}}); err != tt.want {
			t.Errorf("%q: %v", tt.args, err)
		} else if err == nil && c.Namespaces()["d"] != "td" && !c.Bool("cluster-enabled") {
			t.Errorf("%q: %v", tt.args, c.Namespaces())
		}
	}
	// A replica does not write.
	db = &memStore{tokens: m{"d": "td"}}
	c = load(t, "-c", write(t, "r.conf", "requirepass p\nslaveof h 1\nrepl-namespace-enabled yes\nnamespace.f tf\n"))
	check("replica", c.UseNamespaceStore(db), "<nil>", m{"d": "td", "f": "tf"}, m{"d": "td"}, false)
}

func TestDatabases(t *testing.T) {
	for _, tt := range []struct {
		file, want string
	}{
		{"redis-databases 16\nrequirepass p\nnamespace.a t",
			"k.conf:1: redis-databases: redis-databases wasn't allowed while the namespace exists"},
		{"redis-databases 16\ncluster-enabled yes",
			"k.conf:1: redis-databases: redis-databases wasn't allowed while cluster mode is enabled"},
		{"redis-databases -1", "k.conf:1: redis-databases: "},
	} {
		_, err := Load([]string{"-c", write(t, "k.conf", tt.file)}, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.file, err)
		}
	}
	for text, want := range map[string]string{"0": "1", "1": "1", "16": "16"} {
		c := load(t, "-c", write(t, "k.conf", "requirepass p\nredis-databases "+text))
		if got, _ := c.Get("databases"); got != want || strconv.FormatInt(c.Databases(), 10) != text {
			t.Errorf("redis-databases %s: databases is %s, %d", text, got, c.Databases())
		}
		if err := c.Rewrite(); err != nil {
			t.Error(err)
		}
		if err := c.AddNamespace("a", "t"); (err == nil) != (text == "0") {
			t.Errorf("redis-databases %s: AddNamespace: %v", text, err)
		}
	}
}
