package admin

import (
	"bufio"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

// The console is one page that shows the replies of commands. Each browser that has signed in has its own connection to
// the server, over which its commands run: the ACL alone decides about the user's rights. In addition, only commands
// that read are accepted, unless [Console.Writes] returns true.

//go:embed static
var static embed.FS

// Console is the part of the server that the page can reach.
type Console struct {
	// Connect returns a connection to the server in this process, as an unauthenticated client at the address of a
	// browser (host:port).
	Connect func(browser string) (net.Conn, error)
	// Open reports whether clients need no password.
	Open func() bool
	// Writes reports whether commands that write are accepted.
	Writes func() bool
	// DB is the database whose files the page shows.
	DB *engine.DB
	// Hot returns the keys with the most commands, the hottest first. Only users for whom MayMonitor returns true see
	// them, because the keys show what other clients do.
	Hot        func() []HotKey
	MayMonitor func(user string) bool
	// Settings describes the settings that the page shows.
	Settings []Setting
}

// HotKey is a key with many commands.
type HotKey struct {
	Namespace, Key string
	Share          float64 // share in the commands with a key, 0 to 1
}

// Setting describes a setting. Its value is the reply of CONFIG GET.
type Setting struct {
	Name    string `json:"name"`
	Dynamic bool   `json:"dynamic"` // CONFIG SET can change it
	// Protected: CONFIG SET can change it if enable-protected-configs allows that.
	Protected bool   `json:"protected"`
	Comment   string `json:"comment"` // description
}

// The limits of sessions.
const (
	maxSessions     = 64
	sessionIdle     = 30 * time.Minute
	consoleTimeout  = 10 * time.Second
	maxConsoleBody  = 1 << 20
	maxConsoleReply = 8 << 20
	cookieName      = "basalt_console"
)

// policy is the content security policy: only the page's own files, and no scripts from data.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// reading lists the accepted commands by their first word or their first two words.
var reading = map[string]bool{
	"info": true, "dbsize": true, "role": true, "slowlog get": true, "slowlog len": true, "client list": true,
	"client info": true, "latency latest": true, "config get": true, "cluster info": true, "cluster nodes": true,
	"cluster slots": true, "memory usage": true, "memory doctor": true, "acl whoami": true, "select": true,
	"scan": true, "type": true, "exists": true, "pttl": true, "object encoding": true, "debug get": true,
	"strlen": true, "getrange": true, "llen": true, "lrange": true, "scard": true, "sscan": true, "hlen": true,
	"hscan": true, "zcard": true, "zrange": true, "xlen": true, "xrange": true, "xinfo stream": true,
	"xinfo groups": true, "json.get": true, "json.type": true, "sirange": true, "sicard": true, "bf.info": true,
	"tdigest.info": true, "pfcount": true, "bitcount": true,
}

// writing lists the commands that are accepted when writes are on.
var writing = map[string]bool{"config set": true, "config rewrite": true, "del": true, "unlink": true, "persist": true,
	"pexpire": true, "client kill": true, "slowlog reset": true, "compact": true, "set": true}

// mayRun reports whether the console accepts a command.
func mayRun(args []string, writes bool) bool {
	if len(args) == 0 {
		return false
	}
	one := strings.ToLower(args[0])
	two := one
	if len(args) > 1 {
		two += " " + strings.ToLower(args[1])
	}
	return reading[one] || reading[two] || writes && (writing[one] || writing[two])
}

// consoles are the sessions of browsers.
type consoles struct {
	Console
	history *history

	mu       sync.Mutex
	sessions map[string]*consoleSession
}

// consoleSession is a browser that has signed in.
type consoleSession struct {
	mu   sync.Mutex // one request at a time
	c    net.Conn
	r    *bufio.Reader
	user string
	used time.Time // consoles.mu must be held
}

// register registers the paths of the console.
func (c *consoles) register(mux *http.ServeMux) {
	files := map[string]string{"/{$}": "text/html; charset=utf-8 index.html",
		"/console.css": "text/css; charset=utf-8 console.css", "/console.js": "text/javascript; charset=utf-8 console.js",
		"/icon.svg": "image/svg+xml icon.svg"}
	for path, file := range files {
		kind, name := file[:strings.LastIndexByte(file, ' ')], file[strings.LastIndexByte(file, ' ')+1:]
		text, err := static.ReadFile("static/" + name)
		if err != nil {
			panic(err) // the files are embedded
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			c.headers(w)
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(text)
		})
	}
	mux.HandleFunc("POST /console/login", c.login)
	mux.HandleFunc("POST /console/logout", c.logout)
	mux.HandleFunc("POST /console/run", c.signedIn(c.run))
	mux.HandleFunc("GET /console/history", c.signedIn(c.showHistory))
	mux.HandleFunc("GET /console/files", c.signedIn(c.showFiles))
	mux.HandleFunc("GET /console/hot", c.signedIn(c.showHot))
	mux.HandleFunc("GET /console/settings", c.signedIn(c.showSettings))
	mux.HandleFunc("POST /console/raw", c.signedIn(c.showRaw))
}

func (c *consoles) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// ours reports whether the page made a request: other sites cannot send the header.
func ours(r *http.Request) bool { return r.Header.Get("X-Basalt-Console") == "1" }

// isLocal reports whether a host, with or without a port, is this host.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback()
}

func (c *consoles) fail(w http.ResponseWriter, status int, text string) {
	c.headers(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

func (c *consoles) answer(w http.ResponseWriter, v any) {
	c.headers(w)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// login signs a user in.
func (c *consoles) login(w http.ResponseWriter, r *http.Request) {
	var form struct{ User, Password string }
	if !ours(r) || json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10)).Decode(&form) != nil {
		c.fail(w, http.StatusBadRequest, "not a request of the console")
		return
	}
	if c.Open() && !(isLocal(r.RemoteAddr) && isLocal(r.Host)) {
		c.fail(w, http.StatusForbidden, "the server has no password: the console is open on its own machine only")
		return
	}
	nc, err := c.Connect(r.RemoteAddr)
	if err != nil {
		c.fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	s := &consoleSession{c: nc, r: bufio.NewReaderSize(nc, 64<<10), user: form.User, used: time.Now()}
	if form.User == "" {
		s.user = "default"
	}
	commands := [][]string{{"AUTH", s.user, form.Password}, {"CLIENT", "SETNAME", "basalt-console"}}
	if c.Open() && form.Password == "" && form.User == "" {
		commands = commands[1:]
	}
	replies, err := s.do(commands)
	if err == nil {
		if first, isError := replies[0].(map[string]any); isError && first["error"] != nil {
			err = errors.New(fmt.Sprint(first["error"]))
		}
	}
	if err != nil {
		nc.Close()
		c.fail(w, http.StatusUnauthorized, err.Error())
		return
	}
	id := rand.Text()
	c.mu.Lock()
	c.expire(time.Now())
	full := len(c.sessions) >= maxSessions
	if !full {
		c.sessions[id] = s
	}
	c.mu.Unlock()
	if full {
		nc.Close()
		c.fail(w, http.StatusServiceUnavailable, "too many browsers have signed in")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/console", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	c.answer(w, map[string]any{"user": s.user, "writes": c.Writes()})
}

// expire ends sessions that were not used recently. mu must be held.
func (c *consoles) expire(now time.Time) {
	for id, s := range c.sessions {
		if now.Sub(s.used) > sessionIdle {
			s.c.Close()
			delete(c.sessions, id)
		}
	}
}

// close ends all sessions.
func (c *consoles) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.sessions {
		s.c.Close()
		delete(c.sessions, id)
	}
}

func (c *consoles) session(r *http.Request) (id string, s *consoleSession) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.expire(now)
	if s = c.sessions[cookie.Value]; s != nil {
		s.used = now
	}
	return cookie.Value, s
}

func (c *consoles) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		s.c.Close()
		delete(c.sessions, id)
	}
}

func (c *consoles) logout(w http.ResponseWriter, r *http.Request) {
	if ours(r) {
		id, _ := c.session(r)
		c.drop(id)
	}
	c.answer(w, map[string]any{})
}

// signedIn wraps a handler that only signed-in browsers may reach. A session ends when its connection has ended, for
// example by CLIENT KILL.
func (c *consoles) signedIn(h func(w http.ResponseWriter, r *http.Request, s *consoleSession) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, s := c.session(r)
		if s == nil || !ours(r) {
			c.fail(w, http.StatusUnauthorized, "sign in")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var denied deniedError
		switch err := h(w, r, s); {
		case errors.As(err, &denied):
			c.fail(w, http.StatusForbidden, err.Error())
		case err != nil:
			c.drop(id)
			c.fail(w, http.StatusUnauthorized, "the session has ended: "+err.Error())
		}
	}
}

// showHot replies with the hottest keys, for administrators who may see what other clients do.
func (c *consoles) showHot(w http.ResponseWriter, _ *http.Request, s *consoleSession) error {
	if err := s.allowed("CONFIG", "GET", "port"); err != nil {
		return err
	}
	replies, err := s.do([][]string{{"ACL", "WHOAMI"}})
	if err != nil {
		return err
	}
	if user, ok := replies[0].(string); !ok || !c.MayMonitor(user) {
		return deniedError("the hottest keys are for users who may call MONITOR")
	}
	type hotKey struct {
		Namespace string  `json:"namespace"`
		DB        int     `json:"db"` // -1 = SELECT cannot reach it
		Key       any     `json:"key"`
		Share     float64 `json:"share"`
		PerSecond float64 `json:"per_second"`
	}
	ops := c.history.ops()
	list := []hotKey{}
	for _, h := range c.Hot() {
		db, ok := cf.NamespaceDatabase(h.Namespace)
		if !ok {
			db = -1
		}
		list = append(list, hotKey{h.Namespace, db, shown([]byte(h.Key)), h.Share, h.Share * ops})
	}
	c.answer(w, list)
	return nil
}

// showSettings replies with the descriptions of the settings, for users who may read them.
func (c *consoles) showSettings(w http.ResponseWriter, _ *http.Request, s *consoleSession) error {
	if err := s.allowed("CONFIG", "GET", "port"); err != nil {
		return err
	}
	c.answer(w, c.Settings)
	return nil
}

// deniedError is the reason why a request is refused.
type deniedError string

func (e deniedError) Error() string { return string(e) }

// argument is a string from the page: text, or {"base64": ...} if it is not valid UTF-8.
type argument string

// UnmarshalJSON parses both forms.
func (a *argument) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*a = argument(s)
		return nil
	}
	var x struct{ Base64 []byte }
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	*a = argument(x.Base64)
	return nil
}

// run runs commands and replies with their replies in JSON: strings as text or {"base64": ...}, errors as {"error":
// ...}.
func (c *consoles) run(w http.ResponseWriter, r *http.Request, s *consoleSession) error {
	var body struct{ Commands [][]argument }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxConsoleBody)).Decode(&body); err != nil {
		return deniedError("not a list of commands: " + err.Error())
	}
	commands := make([][]string, len(body.Commands))
	for i, args := range body.Commands {
		for _, a := range args {
			commands[i] = append(commands[i], string(a))
		}
		if !mayRun(commands[i], c.Writes()) {
			return deniedError(fmt.Sprintf("the console does not run %.40q", commands[i]))
		}
	}
	replies, err := s.do(commands)
	if err == nil {
		c.answer(w, replies)
	}
	return err
}

// do runs commands over the session's connection.
func (s *consoleSession) do(commands [][]string) ([]any, error) {
	if err := s.c.SetDeadline(time.Now().Add(consoleTimeout)); err != nil {
		return nil, err
	}
	var b []byte
	for _, args := range commands {
		b = resp.AppendCommand(b, args...)
	}
	// Another goroutine sends: the server may stop reading while its replies are not read.
	sent := make(chan error, 1)
	go func() {
		_, err := s.c.Write(b)
		sent <- err
	}()
	replies := make([]any, len(commands))
	left := maxConsoleReply
	for i := range replies {
		var err error
		if replies[i], err = s.reply(&left, 0); err != nil {
			return nil, err
		}
	}
	return replies, <-sent
}

var errReply = errors.New("the reply is too large for the console")

// reply reads a RESP2 reply.
func (s *consoleSession) reply(left *int, depth int) (any, error) {
	line, err := s.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || depth > 16 {
		return nil, errReply
	}
	kind, line := line[0], line[1:len(line)-2]
	if *left -= len(line) + 8; *left < 0 {
		return nil, errReply
	}
	if kind == '+' {
		return line, nil
	}
	if kind == '-' {
		return map[string]any{"error": strings.ToValidUTF8(line, "?")}, nil
	}
	n, err := strconv.ParseInt(line, 10, 64)
	switch {
	case err != nil:
		return nil, errReply
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case n > int64(*left):
		return nil, errReply
	case kind == '$':
		*left -= int(n)
		text := make([]byte, n+2)
		if _, err := io.ReadFull(s.r, text); err != nil {
			return nil, err
		}
		return shown(text[:n]), nil
	case kind == '*':
		list := make([]any, 0, min(n, 1024))
		for ; n > 0; n-- {
			e, err := s.reply(left, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	}
	return nil, errReply
}

// shown converts a string for the page.
func shown(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}
