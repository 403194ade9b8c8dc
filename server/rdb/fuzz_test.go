package rdb

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// fuzzBudget is enough for anything that a fuzzer comes up with and its memory allows.
const fuzzBudget = 1 << 24

// FuzzDecode decodes anything. What is accepted must mean the same after it was written again.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 30 {
		body, _ := randomValue(r, Kind(i%6)).append(nil)
		if len(body) < 2000 {
			f.Add(body)
		}
	}
	for _, body := range []string{
		"\x00\xc3\x06\x14\x01aa\xe0\x09\x00",
		"\x0a" + str(ziplist("a", 5, -1)), "\x0e\x01" + str(ziplist("a", 5, -1)), "\x12\x02\x01\x01a\x02" +
			str(listpack("a", 5)),
		"\x0b" + str(intset(4, 1, 2)), "\x14" + str(listpack("a", 5)), "\x03\x01\x01a\x031.5", "\x0c" +
			str(ziplist("a", 1)), "\x11" + str(listpack("a", 5)),
		"\x09" + str("\x01\x01a\x01\x00b\xff"), "\x0d" + str(ziplist("a", 1)), "\x10" + str(listpack("a", 5)),
		"\x18" + le64(1000) + "\x01\x01\x01a\x01b", "\x19" + le64(1000) + str(listpack("a", "b", 1000)),
		"\x0f\x01" + node + "\x02\x07\x00\x00",
		"\x15\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") + "\x05\x01\x01\x00\x01" + str("c") + le64(50) +
			le64(40) + "\x00",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := Decode(body, fuzzBudget)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if v.Stream != nil {
			for _, g := range v.Stream.Groups {
				for i := range g.Consumers { // the form that is written has no time for it
					g.Consumers[i].Active = g.Consumers[i].Seen
				}
			}
		}
		again, _ := v.append(nil)
		w, err := Decode(again, 1<<40)
		if err != nil {
			t.Fatalf("written again: %v", err)
		}
		if text(v) != text(w) {
			t.Fatalf("%s\nagain %s", text(v), text(w))
		}
	})
}

// fuzzPacked is for a form that is one string.
func fuzzPacked(f *testing.F, read func(r *raw.Reader, b []byte, f func(elem []byte)), seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		r := raw.NewReader(nil, fuzzBudget)
		n := 0
		read(&r, b, func(elem []byte) {
			if n++; r.Err != nil {
				t.Fatal("an element after an error")
			}
			if len(elem) > max(len(b), 20) {
				t.Fatalf("element of %d bytes", len(elem))
			}
		})
		if n > len(b) {
			t.Fatalf("%d elements in %d bytes", n, len(b))
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the input has changed")
		}
	})
}

func FuzzListpack(f *testing.F) {
	fuzzPacked(f, (*raw.Reader).Listpack, listpack("a", 1, -5, 70000, 1<<40), listpack(),
		listpack(string(make([]byte, 300))))
}

func FuzzZiplist(f *testing.F) {
	fuzzPacked(f, (*raw.Reader).Ziplist, ziplist("a", 1, -5, 70000, 1<<40), ziplist(),
		ziplist(string(make([]byte, 300)), "a"))
}

func FuzzZipmap(f *testing.F) {
	fuzzPacked(f, (*raw.Reader).Zipmap, "\x02\x01a\x01\x00b\x02cc\x01\x02dxx\xff", "\x00\xff")
}

func FuzzIntset(f *testing.F) {
	fuzzPacked(f, (*raw.Reader).Intset, intset(2, 1, 2), intset(4, -1), intset(8))
}

func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"\x01" + node + "\x02\x07\x00\x00",
		"\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") + "\x05\x01\x01\x00\x01" + str("c") + le64(50) + "\x00",
	} {
		for form := range byte(3) {
			f.Add(form, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, form byte, b []byte) {
		r := reader{Reader: raw.NewReader(b, fuzzBudget)}
		v := &Value{}
		r.stream([]byte{typeStream, typeStream2, typeStream3}[form%3], v)
		s := v.Stream
		if r.Err != nil {
			return
		}
		for i := range s.Entries {
			e := &s.Entries[i]
			if len(e.Fields) == 0 || len(e.Fields)%2 != 0 || i > 0 && e.ID.Compare(s.Entries[i-1].ID) <= 0 {
				t.Fatalf("entry %d: %v", i, e)
			}
		}
		for _, g := range s.Groups {
			for _, p := range g.Pending {
				if p.Consumer < 0 || p.Consumer >= len(g.Consumers) {
					t.Fatalf("pending for %d of %d consumers", p.Consumer, len(g.Consumers))
				}
			}
		}
	})
}
