package compaction

import (
	"reflect"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

func TestParseExpiries(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Expiries
	}{
		{"", nil},
		{"10:5", Expiries{{10, 5}}},
		{"10:5,20:7", Expiries{{10, 5}, {20, 7}}},
		{"10:5,x:7,20,30:-1,:,40:8", Expiries{{10, 5}, {40, 8}}},
		{"99999999999999999999:1,1:99999999999999999999", nil},
	} {
		if got := ParseExpiries([]byte(tt.text)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestExpired(t *testing.T) {
	e := Expiries{{10, 1}, {20, 2}, {30, 4}}
	for now, want := range map[int64]uint64{0: 0, 9999: 0, 10000: 1, 19999: 1, 20000: 3, 1 << 50: 7} {
		if got := e.Expired(now); got != want {
			t.Errorf("at %d: %d, want %d", now, got, want)
		}
	}
}

func names(files []FileProperties) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Name)
	}
	return strings.Join(all, " ")
}

func TestPickExpired(t *testing.T) {
	const second = 1000
	files := []FileProperties{
		{Name: "none", RawBytes: 100},
		{Name: "a third", RawBytes: 99, Expiries: Expiries{{50, 33}, {5000, 66}}},
		{Name: "little", RawBytes: 1000, Expiries: Expiries{{50, 100}}},
		{Name: "all", RawBytes: 200, Expiries: Expiries{{50, 200}}},
		{Name: "later", RawBytes: 100, Expiries: Expiries{{60, 100}}},
	}
	for _, tt := range []struct {
		id      cf.ID
		percent int
		now     int64
		want    string
	}{
		{cf.Metadata, 30, 49 * second, ""},
		{cf.Metadata, 30, 50 * second, "all a third"},
		{cf.Metadata, 10, 60 * second, "all little later a third"}, // "little" and "later" have as many bytes
		{cf.Metadata, 50, 60 * second, "all later"},
		{cf.Default, 30, 60 * second, ""}, // subkeys stay for the grace
		{cf.Default, 30, 50*second + Grace, "all a third"},
	} {
		got := names(PickExpired(tt.id, files, tt.percent, tt.now))
		if got != tt.want {
			t.Errorf("%v, %d %%, at %d: %q, want %q", tt.id, tt.percent, tt.now, got, tt.want)
		}
	}
}

func TestPickFlushed(t *testing.T) {
	files := []FileProperties{
		{Name: "flushed", Total: 60}, {Name: "deeper", Total: 1000, Level: 6}, {Name: "flushed too", Total: 40},
		{Name: "ingested", Total: 500, Level: 6, Ingested: true}, {Name: "ingested too", Ingested: true},
	}
	for dropped, want := range map[uint64][2]string{0: {}, 29: {}, 30: {"flushed flushed too ingested too"},
		149: {"flushed flushed too ingested too"}, 150: {"flushed flushed too ingested too", "ingested"}} {
		got := [2]string{names(PickFlushed(files, 30, dropped)), names(PickIngested(files, 30, dropped))}
		if got != want {
			t.Errorf("%d dropped: %q, want %q", dropped, got, want)
		}
	}
}

func FuzzParseExpiries(f *testing.F) {
	f.Add([]byte("10:5,20:7"), int64(1<<40))
	f.Add([]byte("-5:1,"), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, now int64) {
		e := ParseExpiries(text)
		if e.Expired(now) > e.Expired(1<<62) && now < 1<<62 {
			t.Error("less has expired later")
		}
	})
}
