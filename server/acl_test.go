package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/servertest"
)

// The rules of a restricted user apply to its commands, to its transactions, and to both after a change of the rules.
func TestUsersArePermittedWhatTheirRulesSay(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	admin.Want("ACL SETUSER alice on >secret ~app:* %R~read:* &news:* +@all -@admin -flushall", "+OK\r\n")
	c.Want("AUTH alice wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	c.Want("ACL WHOAMI", "$7\r\ndefault\r\n")
	c.Want("AUTH alice secret", "+OK\r\n")
	c.Want("ACL WHOAMI", "$5\r\nalice\r\n")
	const noKey, noCommand = "-NOPERM No permissions to access a key\r\n",
		"-NOPERM User alice has no permissions to run the '"
	for _, tt := range [][2]string{
		{"SET app:1 v", "+OK\r\n"},
		{"GET app:1", "$1\r\nv\r\n"},
		{"GET read:1", "$-1\r\n"},
		{"SET read:1 v", noKey},
		{"GET other", noKey},
		{"MGET app:1 other", noKey},
		{"COPY read:1 app:2", ":0\r\n"},
		{"COPY app:1 read:2", noKey},
		{"FLUSHALL", noCommand + "flushall' command\r\n"},
		{"CONFIG GET maxclients", noCommand + "config|get' command\r\n"},
		{"PUBLISH news:1 x", ":0\r\n"},
		{"PUBLISH other x", "-NOPERM No permissions to access a channel\r\n"},
		{"SUBSCRIBE other", "-NOPERM No permissions to access a channel\r\n"},
		{"PSUBSCRIBE news:1", "-NOPERM No permissions to access a channel\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SET app:1 w", "+QUEUED\r\n"},
		{"SET other w", noKey},
		{"EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SET app:1 w", "+QUEUED\r\n"},
	} {
		c.Want(tt[0], tt[1])
	}
	admin.Want("ACL SETUSER alice resetkeys ~new:*", "+OK\r\n")
	c.Want("EXEC", "*1\r\n"+noKey)
	c.Want("GET app:1", noKey)
	c.Want("GET new:1", "$-1\r\n")
	if log := admin.Do("ACL", "LOG", "100"); !strings.Contains(log, "app:1") || !strings.Contains(log, "multi") ||
		!strings.Contains(log, "flushall") || !strings.Contains(log, "AUTH") {
		t.Errorf("ACL LOG: %.300q", log)
	}
	if info := admin.Do("INFO", "stats"); !strings.Contains(info, "acl_access_denied_auth:1\r\n") ||
		!strings.Contains(info, "acl_access_denied_cmd:2\r\n") {
		t.Errorf("INFO does not count what was denied: %q", info)
	}
	admin.Want("ACL DELUSER alice nobody", ":1\r\n")
	c.Closed()
}

// A blocked client that has lost the permission for its command gets an error when the data arrives, and the next
// blocked client gets the data.
func TestBlockedClientsLoseTheirRights(t *testing.T) {
	h := servertest.Start(t)
	admin, c, d := h.Dial(t), h.Dial(t), h.Dial(t)
	for _, tt := range []struct{ wait, rules string }{
		{"BLPOP list 0", "resetkeys"},
		{"BLMOVE list other LEFT LEFT 0", "resetkeys ~list"},
		{"BLMOVEM list other LEFT LEFT 0 COUNT 2 OBO", "resetkeys ~list"},
		{"BLMPOP 0 1 list LEFT", "-blmpop"},
	} {
		admin.Want("ACL SETUSER alice reset on nopass +@all allkeys", "+OK\r\n")
		c.Want("AUTH alice x", "+OK\r\n")
		c.Send(servertest.Pipeline(tt.wait))
		h.BlockedClients(t, 1)
		d.Send(servertest.Pipeline("BRPOP list 0"))
		h.BlockedClients(t, 2)
		admin.Want("CONFIG RESETSTAT", "+OK\r\n")
		admin.Want("ACL SETUSER alice "+tt.rules, "+OK\r\n")
		admin.Want("RPUSH list a", ":1\r\n")
		if got := c.Reply(); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: %q", tt.wait, got)
		}
		if got := d.Reply(); got != servertest.Bulk("list", "a") {
			t.Errorf("%s: the next one got %q", tt.wait, got)
		}
		fields, _ := servertest.ParseInfo(t, admin.Do("INFO"))
		name, _, _ := strings.Cut(strings.ToLower(tt.wait), " ")
		if got := fields["cmdstat_"+name]; !strings.HasSuffix(got, ",rejected_calls=1,failed_calls=0") ||
			fields["errorstat_NOPERM"] != "count=1" {
			t.Errorf("%s: %q, errors %q", tt.wait, got, fields["errorstat_NOPERM"])
		}
		if log := admin.Do("ACL", "LOG", "1"); !strings.Contains(log, "alice") {
			t.Errorf("%s is not in ACL LOG: %q", tt.wait, log)
		}
		admin.Want("ACL LOG RESET", "+OK\r\n")
	}
}

// A subscriber that loses the permission for one of its channels is disconnected, and no other one, as in Redis.
func TestUserLosesChannels(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
	admin.Want("ACL SETUSER bob on nopass &a &b &p* +@all", "+OK\r\n")
	admin.Want("ACL SETUSER eve on nopass &a +@all", "+OK\r\n")
	subscribe := func(user, command, channel string) *servertest.Client {
		s := h.Dial(t)
		s.Want("AUTH "+user+" any", "+OK\r\n")
		s.Do(command, channel)
		return s
	}
	lost := []*servertest.Client{subscribe("bob", "SUBSCRIBE", "a"), subscribe("bob", "SSUBSCRIBE", "a")}
	kept := []*servertest.Client{subscribe("bob", "SUBSCRIBE", "b"), subscribe("bob", "PSUBSCRIBE", "p*"),
		subscribe("bob", "SUBSCRIBE", "p1"), subscribe("bob", "SSUBSCRIBE", "b"), subscribe("eve", "SUBSCRIBE", "a")}
	admin.Want("ACL SETUSER bob &c", "+OK\r\n")
	admin.Want("PUBLISH a x", ":2\r\n")
	lost[0].Reply()
	admin.Want("ACL SETUSER bob resetchannels &b &p*", "+OK\r\n")
	for _, s := range lost {
		s.Closed()
	}
	for _, s := range kept {
		s.Send("PING\r\n")
	}
	kept[4].Expect("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n")
	for _, s := range kept {
		s.Expect("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	}
}

// requirepass is the password of the default user. Setting it replaces the passwords that ACL SETUSER has added.
func TestDefaultUser(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret")
	c := h.Dial(t)
	c.Want("GET k", "-NOAUTH Authentication required.\r\n")
	c.Want("AUTH secret", "+OK\r\n")
	c.Want("ACL SETUSER default >second", "+OK\r\n")
	other := h.Dial(t)
	other.Want("AUTH default second", "+OK\r\n")
	c.Want("CONFIG SET maxclients 500", "+OK\r\n") // other settings do not change the user
	other.Want("AUTH second", "+OK\r\n")
	c.Want("CONFIG SET requirepass third", "+OK\r\n")
	other.Want("AUTH second", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
}

// A user bound to a namespace sees the keys of this namespace only, and is no administrator.
func TestUserOfANamespace(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	admin.Want("ACL SETUSER tenant on >pw allkeys allchannels +@all namespace:ns1", "+OK\r\n")
	admin.Want("SET k outside", "+OK\r\n")
	c.Want("AUTH tenant pw", "+OK\r\n")
	c.Want("GET k", "$-1\r\n")
	c.Want("SET k inside", "+OK\r\n")
	c.Want("FLUSHALL", "-ERR admin permission required to perform the command\r\n")
	admin.Want("GET k", "$7\r\noutside\r\n")
}

// Users are loaded from the aclfile at the start. With a bad file ACL LOAD changes nothing, and the server does not
// start.
func TestACLFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	h := servertest.Start(t, "aclfile", file)
	c := h.Dial(t)
	c.Want("ACL SETUSER carol on >pw ~* +get", "+OK\r\n")
	c.Want("ACL SAVE", "+OK\r\n")
	h.Close()
	h = servertest.Start(t, "aclfile", file)
	c = h.Dial(t)
	c.Want("AUTH carol pw", "+OK\r\n")
	c.Want("GET k", "$-1\r\n")
	c.Want("SET k v", "-NOPERM User carol has no permissions to run the 'set' command\r\n")
	require.NoError(t, os.WriteFile(file, []byte("user carol +nosuchcommand\n"), 0o600))
	if got := h.Dial(t).Do("ACL", "LOAD"); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "nosuchcommand") {
		t.Errorf("ACL LOAD of a bad file: %q", got)
	}
	c.Want("GET k", "$-1\r\n")
	cfg := servertest.Config(t, "aclfile", file)
	s := server.New(cfg, h.DB, nil)
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "nosuchcommand") {
		s.Close()
		t.Errorf("started with a bad aclfile: %v", err)
	}
}

// Users that the configuration declares exist from the start, and CONFIG REWRITE writes the present users.
func TestUsersOfTheConfiguration(t *testing.T) {
	for name, text := range map[string]string{
		"kvrocks.conf": "user alice on >secret \"~a:*\" +@all -@admin\nuser gone on\nnamespace.ns t1\nrequirepass p\n",
		"kvrocks.toml": "requirepass = 'p'\n[user]\nalice = 'on >secret ~a:* +@all -@admin'\ngone = 'on'\n[namespace]\nns " +
			"= 't1'\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, name, text)
			h, err := s.serve()
			require.NoError(t, err)
			c := h.Dial(t)
			c.Want("AUTH alice secret", "+OK\r\n")
			c.Want("SET a:1 v", "+OK\r\n")
			c.Want("SET b v", "-NOPERM No permissions to access a key\r\n")
			c.Want("AUTH t1", "+OK\r\n")
			c.Want("AUTH p", "+OK\r\n")
			c.Want("ACL DELUSER gone", ":1\r\n")
			c.Want("ACL SETUSER bob on >pw ~* +get", "+OK\r\n")
			c.Want("ACL SETUSER alice ~b", "+OK\r\n")
			c.Want("CONFIG REWRITE", "+OK\r\n")
			written := require.File(t, s.file)
			for _, word := range []string{"secret", "gone", "default"} {
				if strings.Contains(string(written), word) {
					t.Errorf("%q is in the file:\n%s", word, written)
				}
			}
			if h, err = s.serve(); err != nil {
				t.Fatal(err)
			}
			c = h.Dial(t)
			c.Want("AUTH alice secret", "+OK\r\n")
			c.Want("SET b v", "+OK\r\n")
			c.Want("AUTH bob pw", "+OK\r\n")
			c.Want("SET b v", "-NOPERM User bob has no permissions to run the 'set' command\r\n")
			c.Want("AUTH gone x", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
			c.Want("AUTH p", "+OK\r\n")
			// The default user is written if requirepass does not describe it completely, and is loaded at the next start.
			c.Want("ACL SETUSER default >other", "+OK\r\n")
			c.Want("CONFIG REWRITE", "+OK\r\n")
			if h, err = s.serve(); err != nil {
				t.Fatal(err)
			}
			c = h.Dial(t)
			c.Want("PING", "-NOAUTH Authentication required.\r\n")
			c.Want("AUTH other", "+OK\r\n")
			c.Want("AUTH p", "+OK\r\n")
			c.Want("CONFIG SET requirepass new", "+OK\r\n")
			c.Want("AUTH p", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
			c.Want("AUTH new", "+OK\r\n")
			c.Want("CONFIG REWRITE", "+OK\r\n")
			if written, _ := os.ReadFile(s.file); strings.Contains(string(written), "default") {
				t.Errorf("requirepass describes the default user, but the user is in the file:\n%s", written)
			}
		})
	}
}

// A user with an invalid rule or name is an error with the file and the line.
func TestBadUserOfTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kvrocks.conf")
	for text, want := range map[string]string{
		"port 0\nuser alice on +nosuch\n": ":2: user: Error in ACL SETUSER modifier '+nosuch': Unknown command or category " +
			"name in ACL",
		"user alice (on\n":  ":1: user: Unmatched parenthesis in acl selector starting at '(on'.",
		"user \"a b\" on\n": ":1: user: username 'a b' contains invalid characters",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		cfg, err := config.Load([]string{"-c", file}, nil)
		require.NoError(t, err)
		if err := server.Check(cfg); err == nil || err.Error() != file+want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// In ACL LOG the field cmd of the client is the denied command, or the command that has run the script with the denied
// command.
func TestCommandOfDenial(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
	admin.Want("ACL SETUSER u on nopass +@all -set ~a*", "+OK\r\n")
	for _, tt := range []struct{ name, commands, cmd string }{
		{"a fresh client", "get b", "get"},
		{"another command before", "get a;get b", "get"},
		{"a command", "get a;set a 1", "set"},
		{"queued", "multi;set a 1", "set"},
		{"in a pipeline", "get a;config get port;set a 1;ping", "set"},
		{"a password", "get a;auth nobody x", "auth"},
		{"HELLO", "get a;hello 3 auth nobody x", "hello"},
		{"a script", "get a;eval return(redis.call('set',KEYS[1],1)) 1 ab", "eval"},
		{"a script after others", "get a;ping;echo x;eval return(redis.call('set',KEYS[1],1)) 1 ab", "eval"},
		{"a script in a transaction", "multi;eval return(redis.call('set',KEYS[1],1)) 1 ab;exec", "exec"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			admin.Want("ACL LOG RESET", "+OK\r\n")
			c := h.Dial(t)
			c.Want("AUTH u x", "+OK\r\n")
			commands := strings.Split(tt.commands, ";")
			c.Send(servertest.Pipeline(commands...))
			for range commands {
				c.Reply()
			}
			log := admin.Do("ACL", "LOG")
			if !strings.Contains(log, " cmd="+tt.cmd+" ") {
				t.Errorf("no cmd=%s in %q", tt.cmd, log)
			}
			if strings.Contains(log, " obuf=") || strings.Contains(log, " namespace=") {
				t.Errorf("%q has fields that Redis 7.2 does not have", log)
			}
		})
	}
}
