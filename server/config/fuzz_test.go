package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// FuzzQuoteConf checks that any value comes back from a line of a kvrocks.conf.
func FuzzQuoteConf(f *testing.F) {
	for _, s := range []string{"", "a", "a b", " a", "a\\", `"`, "'#'", "\b", "\x00\n\r\t\v\f", "a\\nb", "ü\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := "key " + quoteConf(text)
		if strings.Contains(line, "\n") {
			t.Fatalf("%q takes two lines", text)
		}
		key, have, err := parseConfLine(line)
		if key != "key" || have != text || err != nil {
			t.Fatalf("%q is written as %q and read as %q %q (%v)", text, line, key, have, err)
		}
	})
}

// FuzzConfFile reads any bytes as a kvrocks.conf, writes what was accepted and reads it again.
func FuzzConfFile(f *testing.F) {
	for _, s := range []string{"port 1\n", "dir 'x' # c\nrequirepass \"a\\\"b\"\nnamespace.a b", "bind a b\r\n# c",
		"a", "user a on >p #h '~x y'\n uSer b\nuser", "\"", "timeout 5\ntimeout 6"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { rewriteTwice(t, kvrocksConf, data) })
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
	f.Fuzz(func(t *testing.T, data []byte) { rewriteTwice(t, tomlFile, data) })
}

// FuzzScanTOML checks that the scanner finds the keys of every file that the decoder accepts, and ends on all
// others.
func FuzzScanTOML(f *testing.F) {
	f.Add([]byte("a = 1\n[b.'c d'] # x\ne.f = [1, [2]]\n\"g\\u0041\" = {x = \"}\"}\n"))
	f.Add([]byte("a = '''\n'x' = 1\n''''\nb = \"\"\"\\\"\"\"\"\n[[t]]\nk = 2020-01-01 00:00:00 \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items := scanTOML(data)
		var tree map[string]any
		meta, err := toml.Decode(string(data), &tree)
		if err != nil || strings.ContainsRune(string(data), '{') {
			return // keys within inline tables are no items
		}
		found := map[string]bool{}
		end := 0
		for _, item := range items {
			found[strings.Join(item.path, "\x00")] = true
			if item.lineStart < end || item.lineEnd <= item.lineStart || item.lineEnd > len(data) {
				t.Fatalf("item %+v after %d of %q", item, end, data)
			}
			end = item.lineEnd
			if item.header {
				continue
			}
			var one map[string]any
			line := "x = " + string(data[item.valueStart:item.valueEnd])
			if _, err := toml.Decode(line, &one); err != nil {
				t.Fatalf("value %q of %q: %v", line, data, err)
			}
		}
		for _, key := range meta.Keys() {
			// A dotted key's own tables have no item.
			name := strings.Join(key, "\x00")
			if meta.Type(key...) != "Hash" && meta.Type(key...) != "ArrayHash" && !found[name] {
				t.Fatalf("%q was not found in %q", key, data)
			}
		}
	})
}

func rewriteTwice(t *testing.T, f format, data []byte) {
	read := func(data []byte) (*state, []User, error) {
		entries, err := f.entries(data)
		if err != nil {
			return nil, nil, err
		}
		c := Default()
		l := &loader{c: c, st: c.state.Load().clone(), given: map[int]entry{}, files: map[int]string{}}
		for _, e := range entries {
			if err := l.add("file", e, true); err != nil {
				return nil, nil, err
			}
		}
		return l.st, c.users, l.finish()
	}
	st, users, err := read(data)
	if err != nil {
		return
	}
	write := rewriteConf
	if f == tomlFile {
		write = rewriteTOML
	}
	of := func(users []User) *fileUsers { return &fileUsers{all: users, done: map[string]bool{}} }
	same, err := write(data, st, of(users))
	if err != nil {
		t.Fatalf("%q cannot be written: %v", data, err)
	}
	if err := verify(f, same, st, of(users)); err != nil {
		t.Fatalf("%q becomes %q: %v", data, same, err)
	}
	// A change, and a file that has nothing of it yet.
	changed := st.clone()
	for _, name := range []string{"timeout", "rocksdb.max_open_files", "rocksdb.write_options.write_batch_max_bytes"} {
		i := index(name)
		v, err := table[i].parse("", "77")
		if err != nil {
			t.Fatal(err)
		}
		changed.set(i, v)
	}
	users = append(slices.Clone(users[:len(users)/2]), User{"someone \"else\" #", []string{"on", "~a b\\", "#x"}})
	out, err := write(data, changed, of(users))
	if err != nil {
		t.Fatalf("%q cannot be changed: %v", data, err)
	}
	if err := verify(f, out, changed, of(users)); err != nil {
		t.Fatalf("%q becomes %q: %v", data, out, err)
	}
}
