package difftest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// other are the commands that are meant to differ from Redis 7.0.
var other = map[string]string{
	"command|getkeys":         "arity -3 as in Redis 7.2",
	"command|getkeysandflags": "arity -3 as in Redis 7.2",
	"blmove":                  "may be called by scripts as in Redis 7.2",
	"blpop":                   "may be called by scripts as in Redis 7.2",
	"brpop":                   "may be called by scripts as in Redis 7.2",
	"brpoplpush":              "may be called by scripts as in Redis 7.2",
	"bzpopmax":                "may be called by scripts as in Redis 7.2",
	"bzpopmin":                "may be called by scripts as in Redis 7.2",
	"psync":                   "PSYNC sequence of Kvrocks",
	"replconf":                "REPLCONF of Kvrocks",
	"wait":                    "may be called by scripts as in Redis 7.2",
	"hsetnx":                  "several pairs as in Kvrocks",
	"dbsize":                  "DBSIZE SCAN of Kvrocks",
	"lastsave":                "LASTSAVE ISO8601 of Kvrocks",
	"xlen":                    "XLEN key id of Kvrocks",
	"cluster|reset":           "not in transactions: it waits for the locks of others",
	"zrank":                   "WITHSCORE of Redis 7.2",
	"zrevrank":                "WITHSCORE of Redis 7.2",
}

// TestCommandInfo compares what COMMAND INFO says of every command that both
// know: clients route and pipeline by it.
func TestCommandInfo(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	r := connect(t, redis.Addr(), 2)
	b := connect(t, basalt.Addr(), 2)
	all := r.must(t, "COMMAND")
	both := 0
	for _, want := range all.elems {
		name := string(want.elems[0].text)
		got, err := b.do("COMMAND", "INFO", name)
		if err != nil {
			t.Fatalf("COMMAND INFO %s: %v", name, err)
		}
		if len(got.elems) != 1 {
			t.Fatalf("COMMAND INFO %s: %q", name, got.raw)
		}
		if got.elems[0].null || other[name] != "" {
			continue
		}
		both++
		if w, g := infoText(want), infoText(got.elems[0]); w != g {
			t.Errorf("COMMAND INFO %s:\n\tredis:  %s\n\tbasalt: %s", name, w, g)
		}
		for _, sub := range subcommands(got.elems[0]) {
			i := slices.IndexFunc(subcommands(want),
				func(r reply) bool { return string(r.elems[0].text) == string(sub.elems[0].text) })
			if i < 0 || other[string(sub.elems[0].text)] != "" {
				continue
			}
			if w, g := infoText(subcommands(want)[i]), infoText(sub); w != g {
				t.Errorf("COMMAND INFO %s:\n\tredis:  %s\n\tbasalt: %s", sub.elems[0].text, w, g)
			}
		}
	}
	if both < 100 {
		t.Errorf("both know only %d commands", both)
	}
}

// newTips are the commands whose tips Redis 7.2 has changed.
var newTips = []string{"acl|deluser", "acl|save", "acl|setuser", "client|setname", "config|resetstat",
	"config|rewrite", "latency|reset",
	"msetnx", "randomkey", "scan"}

// infoText is all but the ACL categories, which have a test of their own, and the subcommands.
func infoText(info reply) string {
	if len(info.elems) < 10 {
		return fmt.Sprintf("%q", info.raw)
	}
	var flags []string
	for _, f := range info.elems[2].elems {
		flags = append(flags, string(f.text))
	}
	slices.Sort(flags)
	tips := nested(info.elems[7])
	if slices.Contains(newTips, string(info.elems[0].text)) {
		tips = "of 7.2"
	}
	var keys []string
	for _, spec := range info.elems[8].elems {
		if string(spec.elems[0].text) == "notes" { // advice to people
			spec.elems = spec.elems[2:]
		}
		keys = append(keys, nested(spec))
	}
	return fmt.Sprintf("%s arity %s flags %s keys %s %s %s tips %s key specifications %s", info.elems[0].text,
		info.elems[1].text,
		strings.Join(flags, ","), info.elems[3].text, info.elems[4].text, info.elems[5].text, tips, keys)
}

// nested is the texts of a reply and of what is in it.
func nested(r reply) string {
	if len(r.elems) == 0 {
		return string(r.text)
	}
	var texts []string
	for _, e := range r.elems {
		texts = append(texts, nested(e))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func subcommands(info reply) []reply {
	if len(info.elems) < 10 {
		return nil
	}
	return info.elems[9].elems
}

// TestCommandDocs: what Redis 7.0 knows of the words in a command, COMMAND DOCS has too. (Redis 7.2 has given other
// names to many arguments and put some together.)
func TestCommandDocs(t *testing.T) {
	words := func(srv target) map[string][]string {
		r := ask(t, srv, "COMMAND", "DOCS")
		found := map[string][]string{}
		var collect func(command string, r reply)
		collect = func(command string, r reply) {
			for i := 0; i+1 < len(r.elems); i += 2 {
				switch name, value := string(r.elems[i].text), r.elems[i+1]; name {
				case "token":
					found[command] = append(found[command], string(value.text))
				case "arguments":
					for _, a := range value.elems {
						collect(command, a)
					}
				}
			}
		}
		var commands func(r reply)
		commands = func(r reply) {
			for i := 0; i+1 < len(r.elems); i += 2 {
				name, docs := string(r.elems[i].text), r.elems[i+1]
				found[name] = []string{} // it is known
				collect(name, docs)
				for j := 0; j+1 < len(docs.elems); j += 2 {
					if string(docs.elems[j].text) == "subcommands" {
						commands(docs.elems[j+1])
					}
				}
			}
		}
		commands(r)
		return found
	}
	redis, basalt := words(startRedis(t)), words(startBasalt(t))
	both := 0
	for name, want := range redis {
		have, ok := basalt[name]
		if !ok {
			continue
		}
		both++
		for _, w := range want {
			if !slices.Contains(have, w) {
				t.Errorf("COMMAND DOCS %s has no token %q; it has %q", name, w, have)
			}
		}
	}
	if both < 250 {
		t.Errorf("both know only %d commands", both)
	}
}
