package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestHotKeys: a key that most commands access is found as the hottest key, and OBJECT FREQ shows its frequency.
func TestHotKeys(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("MSET hot 1 cold 1", "+OK\r\n")
	servertest.Eventually(t, "the key is the hottest one", func() bool {
		for range 100 {
			c.Want("GET hot", "$1\r\n1\r\n")
		}
		top := h.Sessions().Stats.Hot.Top(1, time.Now())
		return len(top) == 1 && top[0].Key == "hot" && top[0].Share > 0.9
	})
	c.Want("OBJECT FREQ hot", "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. "+
		"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.\r\n")
	c.Want("CONFIG SET maxmemory-policy allkeys-lfu", "+OK\r\n")
	c.Want("OBJECT FREQ cold", ":0\r\n")
	if n := integer(t, c.Do("OBJECT", "FREQ", "hot")); n <= 5 {
		t.Errorf("OBJECT FREQ hot is %d", n)
	}
}

// get requests a path of the console and returns the status and the body of the response.
func (p *page) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", p.base+"/console/"+path, nil)
	require.NoError(p.t, err)
	r.Header.Set("X-Basalt-Console", p.header)
	if p.cookie != nil {
		r.AddCookie(p.cookie)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(text)
}

// TestConsoleOfAdministrators: the console shows the hottest keys to users who may call MONITOR, and the settings to
// users who may call CONFIG GET.
func TestConsoleOfAdministrators(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0", "requirepass", "secret")
	c := h.Dial(t)
	c.Do("AUTH", "secret")
	c.Do("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read")
	c.Do("ACL", "SETUSER", "operator", "on", ">pw", "~*", "+@all", "-monitor")
	for range 10 {
		h.Sessions().Stats.Hot.Add("__namespace", []byte("mine"), time.Now())
		h.Sessions().Stats.Hot.Add("other", []byte("\xff"), time.Now())
	}
	for _, tt := range []struct {
		user, password string
		path           string
		status         int
		want           []string
	}{
		{"", "secret", "hot", 200, []string{`"namespace":"__namespace","db":0,"key":"mine","share":0.5`,
			`"namespace":"other","db":-1,"key":{"base64":"/w=="}`}},
		{"", "secret", "settings", 200, []string{`"name":"port","dynamic":false`, `"name":"timeout","dynamic":true`}},
		{"operator", "pw", "hot", 403, []string{"MONITOR"}},
		{"operator", "pw", "settings", 200, []string{`"name":"port"`}},
		{"reader", "pw", "hot", 403, []string{"NOPERM"}},
		{"reader", "pw", "settings", 403, []string{"NOPERM"}},
	} {
		p := open(t, h)
		if status, text := p.post("login", login{tt.user, tt.password}); status != 200 {
			t.Fatal(status, text)
		}
		status, text := p.get(tt.path)
		if status != tt.status {
			t.Errorf("%s as %q: %d %s", tt.path, tt.user, status, text)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s as %q: no %s in %.500s", tt.path, tt.user, want, text)
			}
		}
	}
	if status, _ := open(t, h).get("hot"); status != 401 {
		t.Errorf("without signing in: %d", status)
	}
}
