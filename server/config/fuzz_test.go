package config

import (
	"slices"
	"testing"

	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

// FuzzConfFile reads any bytes as a kvrocks.conf, writes what was accepted and reads it again.
func FuzzConfFile(f *testing.F) {
	for _, s := range []string{"port 1\n", "dir 'x' # c\nrequirepass \"a\\\"b\"\nnamespace.a b", "bind a b\r\n# c",
		"a", "user a on >p #h '~x y'\n uSer b\nuser", "\"", "timeout 5\ntimeout 6"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { rewriteTwice(t, conffile.Conf, data) })
}

// FuzzTOMLFile does the same with a kvrocks.toml.
func FuzzTOMLFile(f *testing.F) {
	for _, s := range []string{
		"port = 1\n", "bind = [\n'a', # c\n\"b\"]\n[rocksdb]\nblock_size = 0x10 # c\nwrite_options.sync = true",
		"[namespace]\n\"a b\" = '''\nx'''", "[user]\na = 'on \"~x y\"'\nb = ['#x',\n'~x y' ] # c\n",
		"requirepass = \"\"\"a\\\"\"\"\"\"", "[[x]]", "a = {b = 1}", "[ rocksdb . \"write_options\" ]\nsync=true", "=", "]",
		"[", "'", "a.b.c",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { rewriteTwice(t, conffile.TOML, data) })
}

func rewriteTwice(t *testing.T, f conffile.Format, data []byte) {
	read := func(data []byte) (*conffile.Content, error) {
		entries, err := f.Entries(data)
		if err != nil {
			return nil, err
		}
		d := NewDraft()
		for _, e := range entries {
			if err := d.Add("file", e, true); err != nil {
				return nil, err
			}
		}
		return d.Content(), d.Finish()
	}
	content, err := read(data)
	if err != nil {
		return
	}
	same, err := f.Rewrite(data, content)
	if err != nil {
		t.Fatalf("%q cannot be written: %v", data, err)
	}
	if err := verify(f, same, content); err != nil {
		t.Fatalf("%q becomes %q: %v", data, same, err)
	}
	// A change, and a file that has nothing of it yet.
	changed := *content
	changed.Values = slices.Clone(content.Values)
	for _, name := range []string{"timeout", "rocksdb.max_open_files", "rocksdb.write_options.write_batch_max_bytes"} {
		i := setting.Index(name)
		v, err := setting.Table[i].Parse("", "77")
		if err != nil {
			t.Fatal(err)
		}
		changed.Values[i] = v
	}
	changed.Users = append(slices.Clone(content.Users[:len(content.Users)/2]),
		conffile.User{Name: "someone \"else\" #", Rules: []string{"on", "~a b\\", "#x"}})
	out, err := f.Rewrite(data, &changed)
	if err != nil {
		t.Fatalf("%q cannot be changed: %v", data, err)
	}
	if err := verify(f, out, &changed); err != nil {
		t.Fatalf("%q becomes %q: %v", data, out, err)
	}
}
