package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

var (
	idA = strings.Repeat("a", IDLen)
	idB = strings.Repeat("b", IDLen)
)

// text returns the text of an error reply.
func text(err error) string {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return e.Text
	}
	return ""
}

func TestParseNodes(t *testing.T) {
	fill := strings.NewReplacer("A", idA, "B", idB, "|", "\n").Replace
	for nodes, want := range map[string]string{
		"":                                      "Invalid cluster nodes info",
		"A 127.0.0.1 7001 master":               "Invalid cluster nodes info",
		"abc 127.0.0.1 7001 master -":           "Invalid cluster node id",
		"A h 65536 master -":                    "Invalid cluster node port",
		"A h x master -":                        "Invalid cluster node port",
		"A h 1 witness -":                       "Invalid cluster node role",
		"A h 1 master,fail -":                   "Invalid cluster node role",
		"A h 1 slave,odd B":                     "Invalid cluster node role",
		"A h 1 master B":                        "Invalid cluster node id",
		"A h 1 slave -":                         "Invalid cluster node id",
		"A h 1 slave B 0":                       "Invalid cluster nodes info",
		"A h 1 master - 16384":                  "Slot is out of range",
		"A h 1 master - -1":                     "Slot is out of range",
		"A h 1 master - 5-5":                    "Slot is out of range",
		"A h 1 master - 5-4":                    "Slot is out of range",
		"A h 1 master - 1-2-3":                  "Slot is out of range",
		"A h 1 master - 5 5":                    "Slot distribution is overlapped",
		"A h 1 master - 5|B h 2 master - 0-9":   "Slot distribution is overlapped",
		"A h 1 master - 5 B h 2 master -":       "Invalid nodes definition: Missing newline between node entries.",
		"A h 1 master -|A h 2 master -":         "Invalid cluster nodes info: a node id occurs twice",
		"A h 1 master - 1 3-5||B h 2 rEpLiCa A": "",
		"A h 1 Master -|B h 2 slave,fail A|":    "",
	} {
		_, err := Parse([]byte(fill(nodes)))
		if got := text(err); got != want {
			t.Errorf("%q: %q, want %q", nodes, got, want)
		}
	}
}

// TestDoubt: a range in doubt ends where a running migration to the same node begins, and where the other side changes.
func TestDoubt(t *testing.T) {
	fill := strings.NewReplacer("A", idA, "B", idB, "C", strings.Repeat("c", IDLen)).Replace
	top, err := Parse([]byte(fill("A h 1 master - 0-9\nB h 2 master - 20-29\nC h 3 master - 30-39")))
	if err != nil {
		t.Fatal(err)
	}
	top.ID = idA
	top.SetMark(cf.SlotRange{First: 1, Last: 3}, Doubtful, idB)
	top.SetMark(cf.SlotRange{First: 4, Last: 6}, Leaving, idB)
	top.SetMark(cf.SlotRange{First: 7, Last: 7}, Doubtful, fill("C"))
	top.SetMark(cf.SlotRange{First: 28, Last: 31}, Arrived, "")
	top.Settle()
	for _, last := range []uint16{3, 7} {
		r, to, ok := top.Doubt()
		if !ok || r.Last != last || to.ID != map[uint16]string{3: idB, 7: fill("C")}[last] {
			t.Errorf("in doubt up to %d: %v %v %v", last, r, to, ok)
		}
		top.SetMark(r, Unmarked, "")
		top.Settle()
	}
	if r, from, ok := top.Arrival(); !ok || r != (cf.SlotRange{First: 28, Last: 29}) || from.ID != idB {
		t.Errorf("arrived: %v %v %v", r, from, ok)
	}
	if _, _, ok := top.Doubt(); ok {
		t.Error("still in doubt")
	}
}

func FuzzParseNodes(f *testing.F) {
	f.Add([]byte(idA + " 127.0.0.1 7001 master - 0-99 200\n" + idB + " 127.0.0.1 7002 slave " + idA))
	f.Add([]byte(idA + " h 1 master - 1-3 9\n\n" + idB + " h 2 slave,fail " + idA))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := Parse(b)
		if err != nil {
			return
		}
		first.Version, first.ID = 1, idA
		first.Settle()
		again, err := ParseFile([]byte("version 1\nid " + idA + "\n" + first.FileText()))
		if err != nil {
			t.Fatalf("%v: %q", err, first.FileText())
		}
		if again.Settle(); again.FileText() != first.FileText() || again.rules != first.rules {
			t.Errorf("%q\n%q", first.FileText(), again.FileText())
		}
	})
}
