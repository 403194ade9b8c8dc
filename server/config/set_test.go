package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/setting"
)

func TestSetErrors(t *testing.T) {
	for _, c := range []struct {
		start string
		pairs []string
		want  string
	}{
		{"", []string{"Foo", "bar"}, "Unknown option or number of arguments for CONFIG SET - 'Foo'"},
		{"", []string{"timeout", "1", "foo", "bar"}, "Unknown option or number of arguments for CONFIG SET - 'foo'"},
		{"", []string{"databases", "5", "foo", "bar"},
			"CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config"},
		{"", []string{"maxclients", "abc", "databases", "5"},
			"CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config"},
		{"", []string{"maxclients", "7", "MAXCLIENTS", "8"},
			"CONFIG SET failed (possibly related to argument 'MAXCLIENTS') - duplicate parameter"},
		{"", []string{"maxclients", "abc"},
			"CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer"},
		{"", []string{"maxclients", "100", "timeout", "-1"},
			"CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 2147483647 inclusive"},
		{"", []string{"rename-command", "x y"},
			"CONFIG SET failed (possibly related to argument 'rename-command') - can't set immutable config"},
		{"", []string{"timeout"}, "syntax error"},
		{"", nil, "syntax error"},
		{"requirepass p\nnamespace.a t", []string{"requirepass", ""},
			"CONFIG SET failed (possibly related to argument 'requirepass') - requirepass empty not allowed while the " +
				"namespace exists"},
		{"requirepass p\nnamespace.a t", []string{"requirepass", "t"},
			"CONFIG SET failed (possibly related to argument 'requirepass') - requirepass is duplicated with namespace tokens"},
		{"requirepass p\nnamespace.a t", []string{"masterauth", "t"},
			"CONFIG SET failed (possibly related to argument 'masterauth') - masterauth is duplicated with namespace tokens"},
		{"", []string{"rocksdb.min_blob_size", "1"},
			"CONFIG SET failed (possibly related to argument 'rocksdb.min_blob_size') - Must set rocksdb.enable_blob_files to " +
				"yes first."},
		{"rocksdb.level_compaction_dynamic_level_bytes no", []string{"rocksdb.max_bytes_for_level_base", "1"},
			"CONFIG SET failed (possibly related to argument 'rocksdb.max_bytes_for_level_base') - Must set " +
				"rocksdb.level_compaction_dynamic_level_bytes yes first."},
		{"", []string{"log-retention-days", "3"},
			"CONFIG SET failed (possibly related to argument 'log-retention-days') - can't set the 'log-retention-days' when " +
				"the log dir is stdout"},
		{"", []string{"compaction-checker-range", "1-2"},
			"CONFIG SET failed (possibly related to argument 'compaction-checker-range') - compaction-checker-range cannot be " +
				"set while compaction-checker-cron is set"},
		// What is refused above is right in another state.
		{"", []string{"rocksdb.min_blob_size", "1", "rocksdb.enable_blob_files", "yes"}, ""},
		{"", []string{"rocksdb.min_blob_size", "4096"}, ""}, // no change
		{"log-dir /tmp", []string{"log-retention-days", "3"}, ""},
		{"compaction-checker-cron ''", []string{"compaction-checker-range", "1-2"}, ""},
		{"", []string{"rocksdb.max_bytes_for_level_base", "1"}, ""},
		{"", []string{"REPLICA-read-only", "no", "requirepass", "x"}, ""},
	} {
		cfg, err := Load([]string{"-c", "-"}, strings.NewReader(c.start))
		require.NoError(t, err)
		all := func(string) bool { return true }
		before := cfg.Match(all)
		err = cfg.Set(c.pairs...)
		if c.want == "" {
			if err != nil {
				t.Errorf("%q %q: %v", c.start, c.pairs, err)
			}
			for i := 0; i < len(c.pairs); i += 2 {
				if have, _ := cfg.Get(c.pairs[i]); have != c.pairs[i+1] {
					t.Errorf("%q: %s is %q", c.pairs, c.pairs[i], have)
				}
			}
			continue
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q %q:\n have %v\n want %s", c.start, c.pairs, err, c.want)
		}
		if !reflect.DeepEqual(cfg.Match(all), before) {
			t.Errorf("%q %q: refused, but something has changed", c.start, c.pairs)
		}
	}
}

// TestHooks checks which hooks run, what they see, and that a failure undoes all.
func TestHooks(t *testing.T) {
	c := Default()
	var calls []string
	refuse := errors.New("no")
	for _, name := range []string{"timeout", "maxclients", "slave-priority"} {
		c.OnChange(name, func(old, new string) error {
			calls = append(calls, fmt.Sprintf("%s %s>%s", name, old, new))
			if now := c.Text(name); now != new && now != old {
				t.Errorf("hook of %s sees %s", name, now)
			}
			if new == "13" {
				return refuse
			}
			return nil
		})
	}
	expect := func(want ...string) {
		t.Helper()
		if !reflect.DeepEqual(calls, want) {
			t.Errorf("calls are %q, not %q", calls, want)
		}
		calls = nil
	}
	require.NoError(t, c.Set("timeout", "5", "maxclients", "10000", "replica-priority", "1"))
	expect("timeout 0>5", "slave-priority 100>1")
	err := c.Set("timeout", "6", "slave-priority", "2", "maxclients", "13")
	if !errors.Is(err, refuse) || err.Error() != "CONFIG SET failed (possibly related to argument 'maxclients') - no" {
		t.Errorf("error is %v", err)
	}
	expect("timeout 5>6", "slave-priority 1>2", "maxclients 10000>13", "slave-priority 2>1", "timeout 6>5")
	if c.Int("timeout") != 5 || c.Int("maxclients") != 10000 || c.Int("slave-priority") != 1 {
		t.Errorf("values after a failure: %d %d", c.Int("timeout"), c.Int("maxclients"))
	}
}

func TestMatch(t *testing.T) {
	c := load(t, "--rename-command", "A B", "--rename-command", "C D")
	have := c.Match(func(name string) bool { return name == "rename-command" || strings.HasSuffix(name, "-priority") })
	want := []Pair{{Name: "rename-command", Value: "A B"}, {Name: "rename-command", Value: "C D"},
		{Name: "replica-priority", Value: "100"}, {Name: "slave-priority", Value: "100"}}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%+v", have)
	}
	if text, ok := c.Get("RENAME-command"); text != "A B\nC D" || !ok {
		t.Errorf("%q %v", text, ok)
	}
	if text, ok := c.Get("nonsense"); text != "" || ok {
		t.Errorf("%q %v", text, ok)
	}
}

// TestConcurrency lets readers see only whole changes.
func TestConcurrency(t *testing.T) {
	c := Default()
	require.NoError(t, c.Set("timeout", "1", "maxclients", "1"))
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				p := c.Match(func(name string) bool { return name == "timeout" || name == "maxclients" })
				if p[0].Value != p[1].Value {
					t.Errorf("half of a change: %v", p)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 2000 {
		n := fmt.Sprint(i)
		if err := c.Set("timeout", n, "maxclients", n); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	readers.Wait()
}

// TestAccessorsDoNotAllocate guards the accessors that are read for every command or connection.
func TestAccessorsDoNotAllocate(t *testing.T) {
	c := Default()
	n := testing.AllocsPerRun(100, func() {
		_, _, _ = c.Int("proto-max-bulk-len"), c.RequirePass(), c.Bool("slave-read-only")
		_ = c.OutputLimits(setting.ClassPubSub)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
