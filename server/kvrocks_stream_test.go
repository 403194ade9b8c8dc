package server_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestKvrocksStreams runs the recorded reads of streams on Kvrocks's data directory. Where Kvrocks's reply differs from
// Redis's, the expected reply is Redis's for the data that Kvrocks has stored.
func TestKvrocksStreams(t *testing.T) {
	h, _ := serveFixture(t)
	c := h.Dial(t)
	checked := 0
	for _, r := range fixture.Reads(t) {
		if r.Args[0] == "AUTH" {
			c.Do(r.Args...)
			continue
		}
		if !strings.Contains(strings.Join(r.Args, " ")+" ", " stream:") {
			continue
		}
		pattern, delivered := streamReplyPattern(r.Args, r.Reply)
		got := c.Do(r.Args...)
		m := regexp.MustCompile(`^(?s:` + pattern + `)$`).FindStringSubmatch(got)
		if m == nil {
			t.Errorf("%q: %q, want %q", r.Args, got, pattern)
			continue
		}
		for i, at := range delivered {
			idle, err := strconv.ParseInt(m[i+1], 10, 64)
			if since := time.Now().UnixMilli() - at; err != nil || idle < since-60000 || idle > since {
				t.Errorf("%q: idle %s, Kvrocks delivered it %d ms ago", r.Args, m[i+1], since)
			}
		}
		checked++
	}
	if checked < 10 {
		t.Errorf("only %d of the recorded reads were checked", checked)
	}
}

// streamReplyPattern returns a pattern of Redis's reply for a recorded reply of Kvrocks. They differ in these ways:
// Redis replies with an empty string where Kvrocks replies with null; XINFO STREAM has more fields; XPENDING has the
// time since an entry was delivered, which the pattern captures, where Kvrocks has the time of the delivery. delivered
// are these times of delivery, in milliseconds since the epoch.
func streamReplyPattern(args []string, r fixture.Reply) (pattern string, delivered []int64) {
	bulk := func(s string) fixture.Reply { return fixture.Reply{Kind: fixture.Bulk, Text: s} }
	integer := func(n int) fixture.Reply { return fixture.Reply{Kind: fixture.Int, Text: strconv.Itoa(n)} }
	switch args[0] {
	case "XRANGE":
		for _, e := range r.Elems {
			fields := e.Elems[1].Elems
			for i := range fields {
				if fields[i].Kind == fixture.Null {
					fields[i] = bulk("")
				}
			}
		}
	case "XINFO":
		groups := map[string]int{"stream:groups": 3}[args[2]]
		var more []fixture.Reply
		for i, e := range r.Elems {
			if e.Text == "first-entry" {
				more = append(more, bulk("groups"), integer(groups))
			}
			if more = append(more, e); i == 1 {
				more = append(more, bulk("radix-tree-keys"), integer(1), bulk("radix-tree-nodes"), integer(2))
			}
		}
		r.Elems = more
	case "XPENDING":
		for _, e := range r.Elems {
			at, _ := strconv.ParseInt(e.Elems[2].Text, 10, 64)
			delivered = append(delivered, at)
			e.Elems[2].Text = "idle"
		}
	}
	pattern = regexp.QuoteMeta(string(r.AppendRESP2(nil)))
	return strings.ReplaceAll(pattern, ":idle\r\n", `:(\d+)`+"\r\n"), delivered
}

// TestStreamBatchesAreKvrocks compares the write batches of the recorded commands on streams with the batches of this
// server, record by record and field by field. Errors in Kvrocks's records are corrected first: see streamRecord.
func TestStreamBatchesAreKvrocks(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	compared := 0
	for _, cmd := range fixture.LoadReplication(t, fixture.PlainReplication).Commands {
		if !strings.HasPrefix(cmd.Args[0], "X") {
			continue
		}
		var want, got []string
		for _, b := range cmd.Batches {
			want = append(want, streamRecords(t, b.Rep, true)...)
		}
		from := h.DB.LatestSequence() + 1
		c.Do(cmd.Args...)
		for _, rep := range enginetest.LogFrom(t, h.DB, from) {
			got = append(got, streamRecords(t, rep, false)...)
		}
		if w, g := normalise(want), normalise(got); w != g {
			t.Errorf("%q\nKvrocks wrote:\n%s\nwe write:\n%s", cmd.Args, w, g)
		}
		compared++
	}
	if compared < 4 {
		t.Errorf("only %d commands were compared", compared)
	}
}

// streamRecords prints the records of a batch. kvrocks: Kvrocks has written the batch.
func streamRecords(t *testing.T, rep []byte, kvrocks bool) (lines []string) {
	t.Helper()
	for _, rec := range enginetest.Records(t, rep) {
		line, err := streamRecord(&rec, kvrocks, len(lines))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// streamRecord prints the record with the index i of a batch. In records of Kvrocks it corrects three errors: a new
// consumer has not got an entry yet; a delivered entry has the time of its delivery, and a delivery count of 1; the
// number of entries that a group has read begins with 1.
func streamRecord(rec *batch.Record, kvrocks bool, i int) (string, error) {
	switch {
	case rec.Kind == batch.LogData:
		return fmt.Sprintf("log %q", rec.Value), nil
	case rec.Family == cf.Metadata:
		m, tail, err := cf.DecodeMeta(rec.Value)
		if err != nil {
			return "", err
		}
		s, err := cf.DecodeStreamMeta(tail)
		return fmt.Sprintf("%s metadata %s expire %d size %d %+v", rec.Kind, m.Type, m.Expire, m.Size, s), err
	}
	k, err := cf.ParseSubkey(rec.Key, false)
	if err != nil {
		return "", err
	}
	sub, err := cf.ParseStreamSub(k.Sub)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%s %s %q kind %d %v group %q consumer %q", rec.Kind, rec.Family, k.UserKey, sub.Kind, sub.ID,
		sub.Group, sub.Consumer)
	if rec.Kind != batch.Put {
		return line, nil
	}
	switch sub.Kind {
	case cf.StreamGroup:
		v, err := cf.DecodeStreamGroup(rec.Value)
		if kvrocks && v.LastDelivered != (cf.StreamID{}) {
			v.EntriesRead++
		}
		return fmt.Sprintf("%s = %+v", line, v), err
	case cf.StreamConsumer:
		v, err := cf.DecodeStreamConsumer(rec.Value)
		if kvrocks && i == 1 { // a new consumer: other changes of a consumer come after the record of the group
			v.LastSucceeded = 0
		}
		return fmt.Sprintf("%s = %+v", line, v), err
	case cf.StreamPending:
		v, err := cf.DecodeStreamPending(rec.Value)
		if kvrocks && v.DeliveryTime == 0 && v.DeliveryCount == 0 {
			v.DeliveryTime, v.DeliveryCount = uint64(time.Now().UnixMilli()), 1
		}
		return fmt.Sprintf("%s = %+v", line, v), err
	}
	return fmt.Sprintf("%s = %q", line, rec.Value), nil
}
