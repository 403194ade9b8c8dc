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
	"bgsave":                  "nothing is loaded asynchronously",
	"replicaof":               "nothing is loaded asynchronously",
	"slaveof":                 "nothing is loaded asynchronously",
	"hsetnx":                  "several pairs as in Kvrocks",
	"dbsize":                  "DBSIZE SCAN of Kvrocks",
	"xlen":                    "XLEN key id of Kvrocks",
	"zrank":                   "WITHSCORE of Redis 7.2",
	"zrevrank":                "WITHSCORE of Redis 7.2",
}

// TestCommandInfo compares what COMMAND INFO says of every command that both
// know: clients route and pipeline by it.
func TestCommandInfo(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	r, err := dial(redis.Addr(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	b, err := dial(basalt.Addr(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	all, err := r.do("COMMAND")
	if err != nil {
		t.Fatal(err)
	}
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
			i := slices.IndexFunc(subcommands(want), func(r reply) bool { return string(r.elems[0].text) == string(sub.elems[0].text) })
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

// infoText is the name, arity, flags and key positions.
func infoText(info reply) string {
	if len(info.elems) < 6 {
		return fmt.Sprintf("%q", info.raw)
	}
	var flags []string
	for _, f := range info.elems[2].elems {
		flags = append(flags, string(f.text))
	}
	slices.Sort(flags)
	return fmt.Sprintf("%s arity %s flags %s keys %s %s %s", info.elems[0].text, info.elems[1].text,
		strings.Join(flags, ","), info.elems[3].text, info.elems[4].text, info.elems[5].text)
}

func subcommands(info reply) []reply {
	if len(info.elems) < 10 {
		return nil
	}
	return info.elems[9].elems
}
