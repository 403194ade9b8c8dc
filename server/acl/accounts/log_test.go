package accounts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/acl/acltest"
)

func newLog(n int) *accounts.Log {
	return accounts.NewStore(acltest.Table(), accounts.Options{LogEntries: n}).Log()
}

func TestLogGroups(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	base := accounts.Event{Reason: acl.DeniedKey, Context: accounts.TopLevel, Object: "k", Username: "u", Client: "c0"}
	for name, tt := range map[string]struct {
		change func(*accounts.Event)
		after  time.Duration
		same   bool
	}{
		"equal":             {func(e *accounts.Event) {}, 0, true},
		"another client":    {func(e *accounts.Event) { e.Client = "c1" }, 0, true},
		"60 s later":        {func(e *accounts.Event) {}, time.Minute, true},
		"later":             {func(e *accounts.Event) {}, time.Minute + time.Millisecond, false},
		"a clock set back":  {func(e *accounts.Event) {}, -2 * time.Minute, false},
		"a clock a bit off": {func(e *accounts.Event) {}, -time.Second, true},
		"reason":            {func(e *accounts.Event) { e.Reason = acl.DeniedCommand }, 0, false},
		"context":           {func(e *accounts.Event) { e.Context = accounts.Multi }, 0, false},
		"object":            {func(e *accounts.Event) { e.Object = "K" }, 0, false},
		"user":              {func(e *accounts.Event) { e.Username = "v" }, 0, false},
	} {
		l := newLog(0)
		l.Add(base, start)
		e := base
		tt.change(&e)
		l.Add(e, start.Add(tt.after))
		got := l.Entries(10)
		if same := len(got) == 1; same != tt.same {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if first := got[0]; tt.same && (first.Count != 2 || first.Client != e.Client || first.ID != 0 ||
			!first.Created.Equal(start) || !first.Updated.Equal(start.Add(tt.after))) {
			t.Errorf("%s: %+v", name, first)
		}
		if !tt.same && (got[0].ID != 1 || got[1].ID != 0 || got[0].Event != e) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An entry that counts another event is the newest again. Only the ten newest are looked at.
func TestLogOrder(t *testing.T) {
	l, now := newLog(0), time.UnixMilli(0)
	objects := func(n int) string {
		var s []string
		for _, e := range l.Entries(n) {
			s = append(s, fmt.Sprint(e.Object, "x", e.Count))
		}
		return strings.Join(s, " ")
	}
	for _, o := range strings.Fields("a b c a c") {
		l.Add(accounts.Event{Reason: acl.DeniedCommand, Object: o}, now)
	}
	if got := objects(10); got != "cx2 ax2 bx1" {
		t.Error(got)
	}
	for i := range 9 {
		l.Add(accounts.Event{Reason: acl.DeniedCommand, Object: fmt.Sprint(i)}, now)
	}
	l.Add(accounts.Event{Reason: acl.DeniedCommand, Object: "c"}, now)
	l.Add(accounts.Event{Reason: acl.DeniedCommand, Object: "a"}, now)
	if got := objects(3); got != "ax1 cx3 8x1" {
		t.Error(got)
	}
	if got := objects(0); got != "" {
		t.Error(got)
	}
}

func TestLogIsBounded(t *testing.T) {
	l, now := newLog(3), time.UnixMilli(0)
	long := strings.Repeat("x", 1<<20)
	for i := range 10 {
		l.Add(accounts.Event{Reason: acl.DeniedAuth, Object: fmt.Sprint(i, long), Username: long, Client: long}, now)
	}
	got := l.Entries(100)
	if len(got) != 3 || got[0].ID != 9 || got[2].ID != 7 {
		t.Fatalf("%d entries", len(got))
	}
	for _, e := range got {
		if len(e.Object)+len(e.Username)+len(e.Client) > 3*4096 {
			t.Errorf("an entry has %d bytes", len(e.Object)+len(e.Username)+len(e.Client))
		}
	}
	l.SetMax(1)
	if got := l.Entries(100); len(got) != 1 || got[0].ID != 9 {
		t.Errorf("%d entries", len(got))
	}
	l.Reset()
	l.Add(accounts.Event{Reason: acl.DeniedKey}, now)
	if got := l.Entries(100); len(got) != 1 || got[0].ID != 10 {
		t.Errorf("%+v", got)
	}
	l.SetMax(0)
	l.Add(accounts.Event{Reason: acl.DeniedKey}, now)
	if got := l.Entries(100); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if l.Count(acl.DeniedAuth) != 10 || l.Count(acl.DeniedKey) != 2 || l.Count(acl.DeniedChannel) != 0 {
		t.Error("the counts are wrong")
	}
}

func TestLogNames(t *testing.T) {
	if got := fmt.Sprint(acl.DeniedCommand, acl.DeniedKey, acl.DeniedAuth, acl.DeniedChannel, accounts.TopLevel,
		accounts.Multi,
		accounts.Script); got != "command key auth channel toplevel multi lua" {
		t.Error(got)
	}
}

func TestFailureLimiter(t *testing.T) {
	l := accounts.NewFailureLimiter(2)
	start := time.UnixMilli(5000)
	for i, tt := range []struct {
		after      time.Duration
		write      bool
		suppressed int64
	}{
		{0, true, 0}, {0, true, 0}, {100 * time.Millisecond, false, 0}, {999 * time.Millisecond, false, 0},
		{time.Second, true, 2}, {time.Second, true, 0}, {time.Second, false, 0},
		{time.Hour, true, 1},
		{-time.Hour, true, 0}, // the clock was set back
	} {
		if write, suppressed := l.Fail(start.Add(tt.after)); write != tt.write || suppressed != tt.suppressed {
			t.Errorf("%d: %v %d", i, write, suppressed)
		}
	}
}
