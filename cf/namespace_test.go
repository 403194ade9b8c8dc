package cf

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDatabaseNamespace(t *testing.T) {
	for n, ns := range map[int]string{0: DefaultNamespace, 1: "db1", 15: "db15", 1 << 30: "db1073741824"} {
		if got := DatabaseNamespace(n); got != ns {
			t.Errorf("%d is %s, not %s", n, got, ns)
		}
		if got, ok := NamespaceDatabase(ns); got != n || !ok {
			t.Errorf("%s is %d, %v", ns, got, ok)
		}
	}
	for _, ns := range []string{"", "db", "db0", "db01", "db-1", "db+1", "db1 ", "DB1", "dbx", "db2147483648", "ns1",
		"__namespace1"} {
		if n, ok := NamespaceDatabase(ns); ok {
			t.Errorf("%q is database %d", ns, n)
		}
	}
}

func TestNamespacesValue(t *testing.T) {
	for _, tt := range []struct {
		tokens map[string]string
		want   string
	}{
		{nil, `{}`},
		{map[string]string{"ns1": "t1"}, `{"t1":"ns1"}`},
		{map[string]string{"a": "z", "b": "y", "c": "Z"}, `{"Z":"c","y":"b","z":"a"}`},
		{map[string]string{"ü/": "\"\\\b\f\n\r\t\x01\x1f\x7f日"}, `{"\"\\\b\f\n\r\t\u0001\u001F\u007F日":"ü/"}`},
		{map[string]string{"n": ""}, `{"":"n"}`},
	} {
		got, err := AppendNamespaces(nil, tt.tokens)
		if err != nil || string(got) != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.tokens, got, err, tt.want)
		}
		back, err := DecodeNamespaces(got)
		if err != nil || !maps.Equal(back, tt.tokens) {
			t.Errorf("%s reads as %q, %v", got, back, err)
		}
	}
	for _, bad := range []map[string]string{{"\xff": "t"}, {"n": "\xff"}} {
		if _, err := AppendNamespaces(nil, bad); err == nil {
			t.Errorf("%q can be written", bad)
		}
	}
	if got, err := DecodeNamespaces([]byte(` { "b" : "n", "a":"n" } `)); err != nil || len(got) != 1 || got["n"] != "a" {
		t.Errorf("a namespace with two tokens: %q, %v", got, err)
	}
	for _, bad := range []string{"", "{", "[]", `{"t":1}`, `{"t":null}`, `{"t":""}`, `{"t":"` +
		strings.Repeat("x", 256) + `"}`, "{\"t\":\"\xff\"}", `{"t":"n"}x`, `"t"`} {
		if got, err := DecodeNamespaces([]byte(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

func FuzzNamespaces(f *testing.F) {
	for _, s := range []string{`{}`, `{"t":"n"}`, `{"a":"n","b":"n"}`, `{"\u0001":"\ud83d\ude00"}`, `{"t":null}`,
		`null`, "{\"\xff\":\"n\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		tokens, err := DecodeNamespaces(value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		again, err := AppendNamespaces(nil, tokens)
		if err != nil || !utf8.Valid(again) {
			t.Fatalf("%q: %q, %v", value, again, err)
		}
		if back, err := DecodeNamespaces(again); err != nil || !maps.Equal(back, tokens) {
			t.Fatalf("%q became %q (%v)", tokens, back, err)
		}
	})
}
