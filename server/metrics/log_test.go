package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// The newest entries are kept, and numbers go on after a reset.
func TestLog(t *testing.T) {
	var l Log[int64]
	push := func(n int) {
		for range n {
			l.Push(func(id int64) int64 { return id })
		}
	}
	push(5)
	if got := l.Newest(-1); len(got) != 5 || got[0] != 4 || got[4] != 0 {
		t.Errorf("without a limit: %v", got)
	}
	l.SetLimit(3)
	if got := l.Newest(9); l.Len() != 3 || len(got) != 3 || got[2] != 2 {
		t.Errorf("with a limit of 3: %v", got)
	}
	push(2)
	if got := l.Newest(2); len(got) != 2 || got[0] != 6 || got[1] != 5 {
		t.Errorf("the newest two: %v", got)
	}
	l.Reset()
	push(1)
	if got := l.Newest(-1); len(got) != 1 || got[0] != 7 {
		t.Errorf("after a reset: %v", got)
	}
}

func TestSlowLog(t *testing.T) {
	var l SlowLog
	args := [][]byte{[]byte("AUTH"), []byte("s3cret")}
	l.Add(&command.Session{Addr: "addr", Name: "name"}, command.Lookup(args[0]), args, time.Second)
	args[0][0] = 'x' // they alias a buffer that is used again
	e := l.Newest(1)[0]
	if strings.Join(e.Args, " ") != "AUTH "+command.Redacted || e.Addr != "addr" || e.Name != "name" ||
		e.Took != time.Second || e.At.IsZero() {
		t.Errorf("%+v", e)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const r = command.Redacted
	for _, tc := range []struct{ args, want string }{
		{"AUTH s3cret", "AUTH " + r},
		{"AUTH user s3cret", "AUTH " + r + " " + r},
		{"HELLO 3 AUTH user s3cret SETNAME auth", "HELLO 3 AUTH " + r + " " + r + " SETNAME auth"},
		{"HELLO 3 SETNAME auth AUTH user s3cret", "HELLO 3 SETNAME auth AUTH " + r + " " + r},
		{"CONFIG SET requirepass s3cret", "CONFIG SET requirepass " + r},
		{"CONFIG SET maxclients 10 MasterAuth s3cret timeout 1", "CONFIG SET maxclients 10 MasterAuth " + r + " timeout 1"},
		{"CONFIG SET timeout requirepass", "CONFIG SET timeout requirepass"},
		{"GET auth", "GET auth"},
		{"ACL SETUSER joe on >s3cret", "ACL SETUSER " + r + " " + r + " " + r},
		{"ACL GETUSER joe", "ACL GETUSER " + r},
	} {
		var args [][]byte
		for _, w := range strings.Fields(tc.args) {
			args = append(args, []byte(w))
		}
		spec, err := command.Resolve(args)
		if err != nil {
			t.Fatalf("%s: %v", tc.args, err)
		}
		if got := strings.Join(trimArgs(spec, args), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
		}
	}
}
