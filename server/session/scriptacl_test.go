package session_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// The permissions of a restricted user in scripts, and for SORT with patterns in and outside of scripts. The replies
// are those of redis-server 7.0.15, except for denials by the ACL, which have the texts of 7.2.
func TestScriptsOfARestrictedUser(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	admin.Want("ACL SETUSER u on nopass ~a* %R~r* resetchannels &ch* +@all -set -object|encoding", "+OK\r\n")
	admin.Want("RPUSH al 2 1", ":2\r\n")
	c.Want("AUTH u x", "+OK\r\n")
	const (
		command = "ERR ACL failure in script: User u has no permissions to run the 'set' command"
		sub     = "ERR ACL failure in script: User u has no permissions to run the 'object|encoding' command"
		keys    = "ERR ACL failure in script: No permissions to access a key"
		channel = "ERR ACL failure in script: No permissions to access a channel"
		by      = "ERR BY option of SORT denied due to insufficient ACL permissions."
		get     = "ERR GET option of SORT denied due to insufficient ACL permissions."
		place   = " script: SHA, on @user_script:1."
	)
	sha := regexp.MustCompile(`script: [0-9a-f]{40}`)
	eval := func(script string, args ...string) string {
		return sha.ReplaceAllString(c.Do(append([]string{"EVAL", script}, args...)...), "script: SHA")
	}
	for _, tt := range []struct{ call, pcall string }{
		{"'set','a','1'", "-" + command}, {"'SeT','a','1'", "-" + command}, {"'object','encoding','a'", "-" +
			sub}, {"'get','b'", "-" + keys}, {"'incr','rx'", "-" + keys},
		{"'publish','x','m'", "-" + channel}, {"'spublish','x','m'", "-" + channel},
		{"'sort','al','by','w*','get','o*'", "-" + by}, {"'sort','al','get','o*'", "-" +
			get}, {"'sort','al','get','#'", "-" + get},
		{"'sort_ro','al','by','a*'", "-" + by}, {"'sort','al','by','nosort','get','a*'", "-" +
			get}, {"'sort','al','by','w*','store','b'", "-" + keys},
		{"'publish','ch1','m'", ":0"}, {"'get','a'", "$-1"}, {"'get','rx'", "$-1"},
		{"'sort','al','by','nosort'", "*2\r\n$1\r\n2\r\n$1\r\n1"}, {"'sort','al'", "*2\r\n$1\r\n1\r\n$1\r\n2"},
	} {
		if got := eval("return redis.pcall("+tt.call+")", "0"); got != tt.pcall+"\r\n" {
			t.Errorf("pcall(%s): %q, want %q", tt.call, got, tt.pcall)
		}
		if tt.pcall[0] == '-' {
			tt.pcall += place
		}
		if got := eval("return redis.call("+tt.call+")", "0"); got != tt.pcall+"\r\n" {
			t.Errorf("call(%s): %q, want %q", tt.call, got, tt.pcall)
		}
	}
	if got := eval("return 1", "1", "b"); got != "-NOPERM No permissions to access a key\r\n" {
		t.Errorf("a declared key: %q", got)
	}
	admin.Want("ACL LOG RESET", "+OK\r\n")
	for _, tt := range []struct{ args, want string }{
		{"'set','a','b'", "$-1"}, {"'get','b'", "$-1"}, {"'publish','x','m'", "$-1"}, {"'incr','rx'", "$-1"},
		{"'publish','ch1','m'", ":1"}, {"'get','a'", ":1"}, {"'get','rx'", ":1"},
		{"'nosuch','a'", "-ERR Invalid command passed to redis.acl_check_cmd()" + place},
	} {
		if got := eval("return redis.acl_check_cmd("+tt.args+")", "0"); got != tt.want+"\r\n" {
			t.Errorf("acl_check_cmd(%s): %q, want %q", tt.args, got, tt.want)
		}
	}
	admin.Want("ACL LOG", "*0\r\n") // redis.acl_check_cmd is not logged
	eval("return redis.pcall('get','b')", "0")
	if log := admin.Do("ACL", "LOG"); !strings.Contains(log, "$3\r\nlua\r\n") || !strings.Contains(log, "$1\r\nb\r\n") {
		t.Errorf("ACL LOG: %q", log)
	}
	// Outside of scripts, and for users who may read everything.
	for _, tt := range []struct{ rules, command, want string }{
		{"", "SORT al BY w*", "-" + by}, {"", "SORT al GET #", "-" + get}, {"", "SORT_RO al BY a*", "-" + by}, {"",
			"SORT al BY nosort", "*2\r\n$1\r\n2\r\n$1\r\n1"},
		{"%R~*", "SORT al BY w*", "*2\r\n$1\r\n1\r\n$1\r\n2"}, {"%R~*", "SORT al BY w* STORE b",
			"-NOPERM No permissions to access a key"},
		{"resetkeys", "SORT al BY w*", "-NOPERM No permissions to access a key"}, {"(~* +@all)", "SORT al BY w*",
			"*2\r\n$1\r\n1\r\n$1\r\n2"},
		{"allkeys", "SORT_RO al BY w*", "*2\r\n$1\r\n1\r\n$1\r\n2"},
	} {
		if tt.rules != "" {
			admin.Want("ACL SETUSER u "+tt.rules, "+OK\r\n")
		}
		c.Want(tt.command, tt.want+"\r\n")
	}
}
