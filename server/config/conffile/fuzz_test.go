package conffile

import (
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
		key, have, err := ParseLine(line)
		if key != "key" || have != text || err != nil {
			t.Fatalf("%q is written as %q and read as %q %q (%v)", text, line, key, have, err)
		}
	})
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
