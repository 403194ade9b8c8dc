package redislink

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const testID = "0123456789abcdef0123456789abcdef01234567"

// request makes a command.
func request(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// script makes commands of words that are parted by blanks, one a line.
func script(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > 0 {
			b.WriteString(request(words...))
		}
	}
	return b.String()
}

func show(commands []Command) string {
	var b strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&b, "%d:%s; ", c.DB, bytes.Join(c.Args, []byte(" ")))
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// readStream reads a stream that comes in pieces of so many bytes, and returns a line for each unit.
func readStream(d *Stream, stream string, step int) (lines []string, err error) {
	var buf []byte
	for len(stream) > 0 {
		n := min(step, len(stream))
		buf, stream = append(slices.Clone(buf), stream[:n]...), stream[n:] // it moves
		var g Group
		from, used := 0, 0
		for e := Nothing; e != Incomplete; {
			if e, n, err = d.Next(buf[used:], &g); err != nil {
				return lines, err
			}
			used += n
			switch e {
			case Complete:
				u := g.Units[len(g.Units)-1]
				lines = append(lines, fmt.Sprintf("%s [%d %d]", show(g.Commands[from:u.End]), u.After.Offset, u.After.DB))
				from = u.End
			case AckWanted:
				lines = append(lines, fmt.Sprintf("ack [%d %d]", d.State().Offset, d.State().DB))
			}
		}
		buf = buf[used:]
	}
	return lines, nil
}

func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
		end          State
	}{
		{"a command", script("SET a 1"), []string{"0:SET a 1 [127 0]"}, State{Offset: 127}},
		{"SELECT", script("SELECT 3\nSET a 1\nSELECT 0\nDEL a"),
			[]string{"3:SET a 1 [150 3]", "0:DEL a [193 0]"}, State{Offset: 193}},
		{"PING counts", script("PING"), nil, State{Offset: 114}},
		{"an empty line counts", "\n\n", nil, State{Offset: 102}},
		{"GETACK", script("SET a 1\nREPLCONF GETACK *"), []string{"0:SET a 1 [127 0]", "ack [164 0]"}, State{Offset: 164}},
		{"another REPLCONF", script("REPLCONF something 1"), nil, State{Offset: 140}},
		{"a transaction", script("MULTI\nSET a 1\nSELECT 2\nDEL b\nEXEC\nDEL c"),
			[]string{"0:SET a 1; 2:DEL b [199 2]", "2:DEL c [219 2]"}, State{Offset: 219, DB: 2}},
		{"an empty transaction", script("MULTI\nEXEC"), []string{" [129 0]"}, State{Offset: 129}},
		{"a transaction that is not whole", script("SELECT 1\nMULTI\nSELECT 2\nSET a 1"), nil, State{Offset: 123, DB: 1}},
		{"EXEC twice, as of Redis 6.2", script("MULTI\nSET a 1\nEXEC\nEXEC\nDEL c"),
			[]string{"0:SET a 1 [156 0]", "0:DEL c [190 0]"}, State{Offset: 190}},
		{"MULTI twice", script("MULTI\nSET a 1\nMULTI\nDEL b\nEXEC"), []string{"0:SET a 1; 0:DEL b [191 0]"},
			State{Offset: 191}},
		{"names in lower case", script("select 1\nmulti\nset a 1\nexec\nping"), []string{"1:set a 1 [179 1]"},
			State{Offset: 193, DB: 1}},
	} {
		for step := 1; step <= len(tt.stream); step++ {
			d := NewStream(State{ID: testID, Offset: 100})
			got, err := readStream(d, tt.stream, step)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s, in pieces of %d: %v\n%q, want\n%q", tt.name, step, err, got, tt.want)
				break
			}
			tt.end.ID = testID
			if d.State() != tt.end {
				t.Errorf("%s, in pieces of %d: ends at %+v, want %+v", tt.name, step, d.State(), tt.end)
				break
			}
		}
	}
}

func TestStreamErrors(t *testing.T) {
	for name, stream := range map[string]string{
		"an inline command":       "PING\r\n",
		"a reply":                 "+OK\r\n",
		"the wrong type":          "*1\r\n:1\r\n",
		"a length that is none":   "*1\r\n$x\r\n",
		"SELECT of no number":     script("SELECT a"),
		"SELECT of a negative":    script("SELECT -1"),
		"SELECT without a number": script("SELECT"),
	} {
		d := NewStream(State{ID: testID})
		if got, err := readStream(d, stream, len(stream)); !errors.Is(err, ErrStream) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestState(t *testing.T) {
	for _, s := range []State{{ID: testID}, {testID, 1 << 40, 15}} {
		b := s.Append(nil)
		if got, err := ParseState(b); err != nil || got != s {
			t.Errorf("%q: %+v, %v", b, got, err)
		}
	}
	if got := string(State{testID, 12, 3}.Append(nil)); got != "1 "+testID+" 12 3" { // it is on disks
		t.Errorf("stored as %q", got)
	}
	for _, bad := range []string{"", "1", "2 " + testID + " 1 0", "1 short 1 0", "1 " + testID + " -1 0",
		"1 " + testID + " 1 -1", "1 " + testID + " x 0", "1 " + testID + " 1", "1 " + strings.ToUpper(testID[1:]) + "g 1 0"} {
		if got, err := ParseState([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// FuzzStream: whatever comes is read the same way in one piece and in small ones, and offsets only grow.
func FuzzStream(f *testing.F) {
	f.Add(script("SELECT 3\nMULTI\nSET a 1\nEXEC\nPING\nREPLCONF GETACK *\nDEL a"), 7)
	f.Add("*1\r\n$-1\r\n*0\r\n\n*-1\r\n", 1)
	f.Fuzz(func(t *testing.T, stream string, step int) {
		if len(stream) == 0 || len(stream) > 1<<12 {
			return
		}
		whole := NewStream(State{ID: testID})
		want, wantErr := readStream(whole, stream, len(stream))
		parts := NewStream(State{ID: testID})
		got, err := readStream(parts, stream, 1+int(uint(step)%64))
		if (err == nil) != (wantErr == nil) || !slices.Equal(got, want) || whole.State() != parts.State() {
			t.Errorf("in pieces: %q %v %+v, whole: %q %v %+v", got, err, parts.State(), want, wantErr, whole.State())
		}
		if s := whole.State(); s.Offset > int64(len(stream)) {
			t.Errorf("%d bytes end at offset %d", len(stream), s.Offset)
		}
	})
}
