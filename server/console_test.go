package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// page is a client of the console, like the console's page in a browser.
type page struct {
	t      *testing.T
	base   string
	cookie *http.Cookie // of the login
	header string       // value of X-Basalt-Console
	host   string       // value of Host, "" = the address
}

func open(t *testing.T, h *servertest.Harness) *page {
	return &page{t: t, base: "http://" + h.Admin().Addr().String(), header: "1"}
}

// post sends a body to a path of the console and returns the status and the body of the response.
func (p *page) post(path string, body any) (int, string) {
	p.t.Helper()
	b, err := json.Marshal(body)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), "POST", p.base+"/console/"+path, strings.NewReader(string(b)))
	require.NoError(p.t, err)
	if p.header != "" {
		r.Header.Set("X-Basalt-Console", p.header)
	}
	if p.cookie != nil {
		r.AddCookie(p.cookie)
	}
	if p.host != "" {
		r.Host = p.host
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
			p.t.Errorf("cookie %v", c)
		}
		p.cookie = c
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		p.t.Errorf("%s: content policy %q", path, policy)
	}
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

type commands struct {
	Commands [][]string `json:"commands"`
}

type login struct{ User, Password string }

// TestConsole: users sign in with their passwords, can run the commands that the ACL permits, and can only read unless
// admin-console-writes is on.
func TestConsole(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0", "requirepass", "secret")
	c := h.Dial(t)
	for _, args := range [][]string{{"AUTH", "secret"}, {"SET", "<script>", "\xff"}, {"HSET", "h", "f", "v"},
		{"ACL", "SETUSER", "eve", "on", ">pw", "~h", "+@read", "+type"}} {
		c.Send(servertest.Encode(args...))
		c.Reply()
	}
	p := open(t, h)
	for _, tt := range []struct {
		user, password string
		status         int
	}{{"", "", 401}, {"", "wrong", 401}, {"nobody", "secret", 401}} {
		if status, text := p.post("login", login{tt.user, tt.password}); status != tt.status || p.cookie != nil {
			t.Errorf("%s %s: %d %s", tt.user, tt.password, status, text)
		}
	}
	if got := c.Do("ACL", "LOG", "1"); !strings.Contains(got, "nobody") || !strings.Contains(got, " addr=127.0.0.1:") {
		t.Errorf("ACL LOG after wrong passwords: %q", got)
	}
	if status, text := p.post("run", commands{[][]string{{"INFO"}}}); status != 401 {
		t.Errorf("without signing in: %d %s", status, text)
	}
	if status, text := p.post("login", login{"", "secret"}); status != 200 || text != `{"user":"default","writes":false}` {
		t.Fatal(status, text)
	}
	run := func(want string, status int, list ...[]string) {
		t.Helper()
		if got, text := p.post("run", commands{list}); got != status || !strings.Contains(text, want) {
			t.Errorf("%q: %d %s", list, got, text)
		}
	}
	run(`["string",{"base64":"/w=="},-1]`, 200, []string{"TYPE", "<script>"}, []string{"GETRANGE", "<script>", "0", "-1"},
		[]string{"PTTL", "<script>"})
	run(`cluster_enabled:0`, 200, []string{"INFO", "cluster"})
	run("does not run", 403, []string{"SET", "k", "v"})
	run("does not run", 403, []string{"EVAL", "return 1", "0"})
	run("does not run", 403, []string{"CONFIG", "SET", "timeout", "1"})
	run("does not run", 403, []string{})
	if status, text := p.post("raw", map[string]any{"Key": "h"}); status != 200 ||
		!strings.Contains(text, `"family":"default"`) || !strings.Contains(text, `"type":"hash"`) {
		t.Error(status, text)
	}
	p.header = "" // a page of another site cannot send the header
	run("sign in", 401, []string{"INFO"})
	p.header = "1"
	c.Send(servertest.Encode("CONFIG", "SET", "admin-console-writes", "yes"))
	c.Reply()
	run(`["OK"]`, 200, []string{"CONFIG", "SET", "timeout", "1000"})
	run(`[1]`, 200, []string{"UNLINK", "<script>"})
	run("does not run", 403, []string{"FLUSHALL"})
	p.post("logout", struct{}{})
	run("sign in", 401, []string{"INFO"})

	eve := open(t, h)
	if status, text := eve.post("login", login{"eve", "pw"}); status != 200 {
		t.Fatal(status, text)
	}
	p = eve
	run(`["hash",{"error":"NOPERM`, 200, []string{"TYPE", "h"}, []string{"INFO"})
	if status, text := p.post("raw", map[string]any{"Key": "h"}); status != 403 || !strings.Contains(text, "NOPERM") {
		t.Errorf("raw records: %d %s", status, text)
	}
}

// TestConsoleWithoutPassword: the console of a server without a password is open to clients on the same host, but not
// to a page of another site whose host name resolves to this host.
func TestConsoleWithoutPassword(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	p := open(t, h)
	p.host = "evil.example"
	if status, text := p.post("login", login{}); status != 403 {
		t.Error(status, text)
	}
	p.host = ""
	if status, text := p.post("login", login{}); status != 200 {
		t.Error(status, text)
	}
	off := servertest.Start(t, "admin-listen", "127.0.0.1:0", "admin-console", "no")
	if status, _ := get(off, t, "/", "", ""); status != 404 {
		t.Error("switched off:", status)
	}
}

// TestConsoleInBrowser loads pages in Chromium: a key and a value that look like HTML are shown as text.
func TestConsoleInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0", "admin-console-writes", "yes")
	c := h.Dial(t)
	key, value := "<script>document.title='bad'</script>", "<img src=x onerror=\"document.title='bad'\">"
	for _, args := range [][]string{{"SET", key, value}, {"XADD", "s", "1-1", "f", "v"}} {
		c.Send(servertest.Encode(args...))
		c.Reply()
	}
	for _, tt := range []struct {
		page      string
		has, lack []string
	}{
		{"Keys/%3Cscript%3Edocument.title%3D'bad'%3C%2Fscript%3E",
			[]string{"&lt;script&gt;document.title='bad'&lt;/script&gt;", "&lt;img src=x", "<title>basalt</title>",
				"ldb --db=/", "--column_family=metadata"},
			[]string{"<script>document", "<img src"}},
		// The last page of a stream has no link to a next page.
		{"Keys/s", []string{"1-1", "f, v", "stream"}, []string{"Next page"}},
		{"Replication", []string{"Cluster mode is off."}, []string{"cluster support disabled"}},
		// The page of settings explains a setting that can be changed, and has a button for it.
		{"Settings", []string{"Seconds after which an idle client is disconnected", ">Set</button>"}, nil},
	} {
		out, err := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
			"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--dump-dom",
			"http://"+h.Admin().Addr().String()+"/#"+tt.page).Output()
		require.NoError(t, err)
		dom := string(out)
		for _, want := range tt.has {
			if !strings.Contains(dom, want) {
				t.Errorf("no %s in the page", want)
			}
		}
		for _, bad := range tt.lack {
			if strings.Contains(dom, bad) {
				t.Errorf("%s is in the page", bad)
			}
		}
		if t.Failed() {
			t.Fatal(dom)
		}
	}
}

// TestConsoleFiles: the server has all files that the page of the console links to.
func TestConsoleFiles(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	status, page := get(h, t, "/", "", "")
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if status != 200 || len(links) != 3 {
		t.Errorf("%d, %q", status, links)
	}
	for _, link := range links {
		if status, text := get(h, t, link[1], "", ""); status != 200 || text == "" {
			t.Errorf("%s: %d", link[1], status)
		}
	}
}
