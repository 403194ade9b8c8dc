package command

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// streamCase is a command with its reply in both protocols, written as words: the header of an array or a map as in
// RESP3, _ for null, _* for a null that is a null array in RESP2, :? for a number that depends on the clock, &n for the
// n streams of XREAD, each of which begins with &. Other words are bulk strings. A reply that begins with - is an
// error.
type streamCase struct{ line, reply string }

// streamReply returns the pattern of the raw reply.
func streamReply(proto int, words string) string {
	if strings.HasPrefix(words, "-") {
		return regexp.QuoteMeta(words + "\r\n")
	}
	var out strings.Builder
	for _, w := range strings.Fields(words) {
		n, _ := strconv.Atoi(w[1:])
		switch {
		case w == "_" && proto == 2:
			w = "$-1"
		case w == "_*" && proto == 2:
			w = "*-1"
		case w == "_*":
			w = "_"
		case w == "&" && proto == 2:
			w = "*2"
		case w == "&":
			continue
		case w[0] == '%' && proto == 2:
			w = fmt.Sprintf("*%d", 2*n)
		case w[0] == '&' && proto == 2:
			w = "*" + w[1:]
		case w[0] == '&':
			w = "%" + w[1:]
		case w == "_", strings.ContainsRune("*%:+", rune(w[0])):
		default:
			w = strings.Trim(w, `"`)
			w = fmt.Sprintf("$%d\r\n%s", len(w), w)
		}
		switch w {
		case ":?":
			out.WriteString(`:\d+\r\n`)
			continue
		case "$1\r\n?":
			out.WriteString(`\$\d+\r\n[^\r]*\r\n`)
			continue
		}
		out.WriteString(regexp.QuoteMeta(w + "\r\n"))
	}
	return out.String()
}

func runStreamCases(t *testing.T, cases []streamCase) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		db := enginetest.Open(t)
		for _, c := range cases {
			args := strings.Fields(c.line)
			for i, a := range args {
				args[i] = strings.Trim(a, `"`)
			}
			got := doProto(t, db, proto, args...)
			if want := streamReply(proto, c.reply); !regexp.MustCompile(`^(?s:` + want + `)$`).MatchString(got) {
				t.Errorf("RESP%d %s: %q, want %q", proto, c.line, got, want)
			}
		}
	}
}

const (
	invalidID  = "-ERR Invalid stream ID specified as stream command argument"
	notInteger = "-ERR value is not an integer or out of range"
	tooSmall   = "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
	syntax     = "-ERR syntax error"
)

func TestStreamEntries(t *testing.T) {
	runStreamCases(t, []streamCase{
		{"XADD s 1-1 f v", "1-1"},
		{"XADD s 1-* f v g w", "1-2"},
		{"XADD s 5 f v", "5-0"},
		{"XADD s NOMKSTREAM 6-1 f v", "6-1"},
		{"XADD missing NOMKSTREAM * f v", "_"},
		{"XADD s 6-1 f v", tooSmall},
		{"XADD s 5-* f v", tooSmall},
		{"XADD s 0-0 f v", "-ERR The ID specified in XADD must be greater than 0-0"},
		{"XADD s 1-1-1 f v", invalidID},
		{"XADD s 7-1 f", "-ERR wrong number of arguments for 'xadd' command"},
		{"XADD s", "-ERR wrong number of arguments for 'xadd' command"},
		{"XADD s MAXLEN ~ 5 MINID 5 * f v",
			"-ERR syntax error, MAXLEN and MINID options at the same time are not compatible"},
		{"XADD s MAXLEN -1 * f v", "-ERR The MAXLEN argument must be >= 0."},
		{"XADD s MAXLEN = 5 LIMIT 5 * f v", "-ERR syntax error, LIMIT cannot be used without the special ~ option"},
		{"XADD s MAXLEN ~ 5 LIMIT -5 * f v", "-ERR The LIMIT argument must be >= 0."},
		{"XADD s LIMIT 5 * f v", "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"},
		{"XLEN s", ":4"},
		{"XLEN s what", invalidID},
		{"XLEN s 1-1 x", "-ERR syntax error"},
		{"XLEN s 1-1 + x", "-ERR wrong number of arguments for 'xlen' command"},
		{"XLEN s 0", ":4"},
		{"XLEN s 0 -", ":0"},
		{"XLEN s 99999999999999 +", ":0"},
		{"XLEN s 99999999999999 -", ":4"},
		{"XLEN missing 1-1 +", ":0"},
		{"XLEN missing", ":0"},
		{"XRANGE s - +", "*4 *2 1-1 *2 f v *2 1-2 *4 f v g w *2 5-0 *2 f v *2 6-1 *2 f v"},
		{"XRANGE s 1 1", "*2 *2 1-1 *2 f v *2 1-2 *4 f v g w"},
		{"XRANGE s (1-1 (6-1", "*2 *2 1-2 *4 f v g w *2 5-0 *2 f v"},
		{"XRANGE s - + COUNT 1", "*1 *2 1-1 *2 f v"},
		{"XRANGE s - + COUNT 0", "_*"},
		{"XRANGE missing - + COUNT 0", "*0"},
		{"XRANGE s 7 +", "*0"},
		{"XRANGE s - + COUNT x", notInteger},
		{"XRANGE s - + LIMIT 1", syntax},
		{"XRANGE s ( +", invalidID},
		{"XRANGE s (18446744073709551615-18446744073709551615 +", "-ERR invalid start ID for the interval"},
		{"XRANGE s - (0-0", "-ERR invalid end ID for the interval"},
		{"XREVRANGE s + - COUNT 2", "*2 *2 6-1 *2 f v *2 5-0 *2 f v"},
		{"XREVRANGE s 1-1 1-1", "*1 *2 1-1 *2 f v"},
		{"XADD s MAXLEN 3 7-1 f v", "7-1"},
		{"XADD s MINID = 7 8-1 f v", "8-1"},
		{"XRANGE s - +", "*2 *2 7-1 *2 f v *2 8-1 *2 f v"},
		{"XADD s MAXLEN 0 9-1 f v", "9-1"},
		{"XLEN s", ":0"},
		{"XRANGE s - +", "*0"},
		{"EXISTS s", ":1"},
		{"XADD s 9-1 f v", tooSmall},
		{`XADD s 10-1 "" ""`, `10-1`},
		{"XRANGE s - +", `*1 *2 10-1 *2 "" ""`},
		{"XADD s 10-2 f v", "10-2"},
		{"XADD s 10-3 f v", "10-3"},
		{"XDEL s 10-1 10-1 77-7", ":1"},
		{"XDEL missing what", ":0"},
		{"XDEL s what", invalidID},
		{"XTRIM s MAXLEN 1", ":1"},
		{"XTRIM s MAXLEN ~ 0", ":1"},
		{"XTRIM s MINID 99", ":0"},
		{"XTRIM s MINID", "-ERR wrong number of arguments for 'xtrim' command"},
		{"XTRIM s what 1", syntax},
		{"XTRIM s LIMIT 0 LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy"},
		{"XSETID s 10-2", "+OK"},
		{"XSETID s 10-0", "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"},
		{"XSETID s 20-5 ENTRIESADDED 100 MAXDELETEDID 20-4", "+OK"},
		{"XSETID s 20-5 ENTRIESADDED -1", "-ERR entries_added must be positive"},
		{"XSETID s 20-5 MAXDELETEDID 20-6",
			"-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"},
		{"XSETID missing 1-1", "-ERR no such key"},
	})
}

func TestStreamInfo(t *testing.T) {
	const about = " radix-tree-keys :1 radix-tree-nodes :2 last-generated-id "
	runStreamCases(t, []streamCase{
		{"XINFO STREAM s", "-ERR no such key"},
		{"XINFO GROUPS s", "-ERR no such key"},
		{"XINFO CONSUMERS s g", "-ERR no such key"},
		{"XGROUP CREATE s g $ MKSTREAM", "+OK"},
		{"XINFO STREAM s",
			"%10 length :0 radix-tree-keys :0 radix-tree-nodes :1 last-generated-id 0-0 max-deleted-entry-id 0-0 " +
				"entries-added :0 " +
				"recorded-first-entry-id 0-0 groups :1 first-entry _ last-entry _"},
		{"XINFO STREAM s FULL",
			"%9 length :0 radix-tree-keys :0 radix-tree-nodes :1 last-generated-id 0-0 max-deleted-entry-id 0-0 entries-added " +
				":0 " +
				"recorded-first-entry-id 0-0 entries *0 groups *1 %7 name g last-delivered-id 0-0 entries-read _ lag :0 " +
				"pel-count :0 pending *0 consumers *0"},
		{"XADD s 1-1 a 1", "1-1"},
		{"XADD s 2-1 a 2", "2-1"},
		{"XADD s 3-1 a 3", "3-1"},
		{"XDEL s 2-1", ":1"},
		{"XINFO STREAM s", "%10 length :2" + about +
			"3-1 max-deleted-entry-id 2-1 entries-added :3 recorded-first-entry-id 1-1 groups :1 " +
			"first-entry *2 1-1 *2 a 1 last-entry *2 3-1 *2 a 3"},
		{"XGROUP CREATE s h 1-1 ENTRIESREAD 1", "+OK"},
		{"XINFO GROUPS s", "*2 %6 name g consumers :0 pending :0 last-delivered-id 0-0 entries-read _ lag _ " +
			"%6 name h consumers :0 pending :0 last-delivered-id 1-1 entries-read :1 lag _"},
		{"XREADGROUP GROUP g c COUNT 1 STREAMS s >", "&1 & s *1 *2 1-1 *2 a 1"},
		{"XREADGROUP GROUP g d NOACK STREAMS s >", "&1 & s *1 *2 3-1 *2 a 3"},
		{"XREADGROUP GROUP g e STREAMS s >", "_*"},
		{"XINFO CONSUMERS s g",
			"*3 %4 name c pending :1 idle :? inactive :? %4 name d pending :0 idle :? inactive :-1 %4 name e pending :0 idle " +
				":? inactive :-1"},
		{"XINFO CONSUMERS s what", "-NOGROUP No such consumer group 'what' for key name 's'"},
		{"XINFO STREAM s FULL COUNT 1", "%9 length :2" + about +
			"3-1 max-deleted-entry-id 2-1 entries-added :3 recorded-first-entry-id 1-1 entries *1 *2 1-1 *2 a 1 " +
			"groups *2 %7 name g last-delivered-id 3-1 entries-read :3 lag :0 pel-count :1 pending *1 *4 1-1 c :? :1 " +
			"consumers *3 %5 name c seen-time :? active-time :? pel-count :1 pending *1 *3 1-1 :? :1 " +
			"%5 name d seen-time :? active-time :-1 pel-count :0 pending *0 %5 name e seen-time :? active-time :-1 pel-count " +
			":0 pending *0 " +
			"%7 name h last-delivered-id 1-1 entries-read :1 lag _ pel-count :0 pending *0 consumers *0"},
		{"XINFO STREAM s FULL COUNT x", notInteger},
		{"XINFO STREAM s WHAT", "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."},
		{"XINFO WHAT", "-ERR unknown subcommand 'WHAT'. Try XINFO HELP."},
		{"XINFO", "-ERR wrong number of arguments for 'xinfo' command"},
		{"TYPE s", "+stream"},
		{"OBJECT ENCODING s", "stream"},
		{"RENAME s t", "+OK"},
		{"COPY t u", ":1"},
		{"DEL t", ":1"},
		{"XPENDING u g", "*4 :1 1-1 1-1 *1 *2 c 1"},
		{"XLEN t", ":0"},
		{"XADD t 1-1 a b", "1-1"},
		{"XINFO GROUPS t", "*0"},
	})
}

func TestStreamGroups(t *testing.T) {
	noStream := "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the " +
		"MKSTREAM option to create an empty stream automatically."
	noGroup := "-NOGROUP No such key 's' or consumer group 'x'"
	runStreamCases(t, []streamCase{
		{"XGROUP CREATE s g 0", noStream},
		{"XGROUP DESTROY s g", noStream},
		{"XADD s 1-1 a 1", "1-1"},
		{"XADD s 1-2 a 2", "1-2"},
		{"XADD s 2-0 a 3", "2-0"},
		{"XGROUP CREATE s g 0", "+OK"},
		{"XGROUP CREATE s g 0", "-BUSYGROUP Consumer Group name already exists"},
		{"XGROUP CREATE s h what", invalidID},
		{"XGROUP CREATE s h 0 ENTRIESREAD -5", "-ERR value for ENTRIESREAD must be positive or -1"},
		{"XGROUP CREATE s h 0 WHAT", "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."},
		{"XGROUP CREATE s 9-digits-first 0", "+OK"}, // Kvrocks refuses the name
		{"XGROUP DESTROY s 9-digits-first", ":1"},
		{"XGROUP DESTROY s 9-digits-first", ":0"},
		{"XGROUP SETID s g 1-1", "+OK"},
		{"XGROUP SETID s x 1-1", "-NOGROUP No such consumer group 'x' for key name 's'"},
		{"XGROUP SETID s g 0 ENTRIESREAD 0", "+OK"},
		{"XGROUP CREATECONSUMER s g idle", ":1"},
		{"XGROUP CREATECONSUMER s g idle", ":0"},
		{"XGROUP DELCONSUMER s g idle", ":0"},
		{"XGROUP WHAT", "-ERR unknown subcommand 'WHAT'. Try XGROUP HELP."},
		{"XREADGROUP GROUP g c COUNT 2 STREAMS s >", "&1 & s *2 *2 1-1 *2 a 1 *2 1-2 *2 a 2"},
		{"XREADGROUP GROUP g d COUNT 2 STREAMS s >", "&1 & s *1 *2 2-0 *2 a 3"},
		{"XREADGROUP GROUP g c STREAMS s 0", "&1 & s *2 *2 1-1 *2 a 1 *2 1-2 *2 a 2"},
		{"XREADGROUP GROUP g c STREAMS s 1-2", "&1 & s *0"},
		{"XREADGROUP GROUP x c STREAMS s >",
			"-NOGROUP No such key 's' or consumer group 'x' in XREADGROUP with GROUP option"},
		{"XREADGROUP GROUP g c STREAMS s $",
			"-ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by " +
				"specifying a proper ID, " +
				"or use the > ID to get new messages. The $ ID would just return an empty result set."},
		{"XREADGROUP GROUP g c STREAMS s", "-ERR wrong number of arguments for 'xreadgroup' command"},
		{"XREADGROUP COUNT 1 NOACK STREAMS s >", "-ERR Missing GROUP option for XREADGROUP"},
		{"XREADGROUP GROUP g c STREAMS s t >",
			"-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."},
		{"XPENDING s g", "*4 :3 1-1 2-0 *2 *2 c 2 *2 d 1"},
		{"XPENDING s g - + 10", "*3 *4 1-1 c :? :2 *4 1-2 c :? :2 *4 2-0 d :? :1"},
		{"XPENDING s g (1-1 + 10 c", "*1 *4 1-2 c :? :2"},
		{"XPENDING s g IDLE 1000000 - + 10", "*0"},
		{"XPENDING s g - + 0", "*0"},
		{"XPENDING s x", noGroup},
		{"XPENDING s g -", syntax},
		{"XPENDING s g - + what", notInteger},
		{"XDEL s 1-2", ":1"},
		{"XREADGROUP GROUP g c STREAMS s 0", "&1 & s *2 *2 1-1 *2 a 1 *2 1-2 _*"},
		{"XCLAIM s g d 0 1-1", "*1 *2 1-1 *2 a 1"},
		{"XCLAIM s g d 0 1-1 JUSTID RETRYCOUNT 9", "*1 1-1"},
		{"XCLAIM s g d 1000000 1-1", "*0"},
		{"XCLAIM s g d 0 1-1 IDLE 5000000 JUSTID", "*1 1-1"},
		{"XCLAIM s g c 4000000 1-1 JUSTID", "*1 1-1"},
		{"XPENDING s g - + 10 c", "*2 *4 1-1 c :? :9 *4 1-2 c :? :2"},
		{"XCLAIM s g d 0 1-2", "*0"}, // the entry is deleted, and no longer pending
		{"XPENDING s g", "*4 :2 1-1 2-0 *2 *2 c 1 *2 d 1"},
		{"XCLAIM s g d 0 7-7 FORCE", "*0"},
		{"XCLAIM s g d what 1-1", "-ERR Invalid min-idle-time argument for XCLAIM"},
		{"XCLAIM s g d 0 1-1 IDLE x", "-ERR Invalid IDLE option argument for XCLAIM"},
		{"XCLAIM s g d 0 1-1 TIME x", "-ERR Invalid TIME option argument for XCLAIM"},
		{"XCLAIM s g d 0 1-1 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT option argument for XCLAIM"},
		{"XCLAIM s g d 0 1-1 WHAT", "-ERR Unrecognized XCLAIM option 'WHAT'"},
		{"XCLAIM s x d 0 1-1", noGroup},
		{"XAUTOCLAIM s g e 0 0 COUNT 1", "*3 2-0 *1 *2 1-1 *2 a 1 *0"},
		{"XDEL s 1-1", ":1"},
		{"XAUTOCLAIM s g e 0 0 JUSTID", "*3 0-0 *1 2-0 *1 1-1"},
		{"XAUTOCLAIM s g e 1000000 -", "*3 0-0 *0 *0"},
		{"XAUTOCLAIM s g e 0 0 COUNT 0", "-ERR COUNT must be > 0"},
		{"XAUTOCLAIM s g e x 0", "-ERR Invalid min-idle-time argument for XAUTOCLAIM"},
		{"XAUTOCLAIM s x e 0 0", noGroup},
		{"XACK s g 2-0 2-0 9-9", ":1"},
		{"XACK s x 2-0", ":0"},
		{"XACK s g what", invalidID},
		{"XPENDING s g", "*4 :0 _ _ _*"},
		{"XADD s 8-8 a 8", "8-8"},
		{"XREADGROUP GROUP g c STREAMS s >", "&1 & s *1 *2 8-8 *2 a 8"},
		{"XGROUP DELCONSUMER s g c", ":1"},
		{"XGROUP DESTROY s g", ":1"},
		{"XRANGE s - +", "*2 *2 2-0 *2 a 3 *2 8-8 *2 a 8"}, // Kvrocks deletes the entries as well
	})
}

func TestXRead(t *testing.T) {
	runStreamCases(t, []streamCase{
		{"XADD s 1-1 a 1", "1-1"},
		{"XADD s 2-1 a 2", "2-1"},
		{"XADD t 1-1 b 1", "1-1"},
		{"XREAD STREAMS s 0", "&1 & s *2 *2 1-1 *2 a 1 *2 2-1 *2 a 2"},
		{"XREAD COUNT 1 STREAMS s missing t 0 0 0", "&2 & s *1 *2 1-1 *2 a 1 & t *1 *2 1-1 *2 b 1"},
		{"XREAD STREAMS s t 1-1 1-1", "&1 & s *1 *2 2-1 *2 a 2"},
		{"XREAD STREAMS s $", "_*"},
		{"XREAD BLOCK 0 COUNT 1 STREAMS s 0", "&1 & s *1 *2 1-1 *2 a 1"},
		{"XREAD BLOCK x STREAMS s 0", "-ERR timeout is not an integer or out of range"},
		{"XREAD BLOCK -1 STREAMS s 0", "-ERR timeout is negative"},
		{"XREAD BLOCK 9223372036854775807 STREAMS s 0", "-ERR timeout is out of range"},
		{"XREAD STREAMS s >",
			"-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."},
		{"XREAD GROUP g c STREAMS s 0", "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."},
		{"XREAD NOACK STREAMS s 0", "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."},
		{"XREAD STREAMS s t 0",
			"-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."},
		{"XREAD COUNT x STREAMS s 0", notInteger},
		{"XREAD COUNT 1 s 0", syntax},
		{"XREAD STREAMS s what", invalidID},
	})
}

func TestStreamWrongType(t *testing.T) {
	var cases []streamCase
	for _, line := range []string{"XADD k * a b", "XLEN k", "XRANGE k - +", "XRANGE k - + COUNT 0", "XREVRANGE k + -",
		"XDEL k 1-1", "XTRIM k MAXLEN 1", "XSETID k 1-1",
		"XREAD STREAMS k 0", "XREADGROUP GROUP g c STREAMS k >", "XGROUP CREATE k g 0 MKSTREAM", "XGROUP SETID k g 0",
		"XGROUP DESTROY k g", "XGROUP CREATECONSUMER k g c",
		"XGROUP DELCONSUMER k g c", "XACK k g 1-1", "XCLAIM k g c 0 1-1", "XAUTOCLAIM k g c 0 0", "XPENDING k g",
		"XPENDING k g - + 1", "XINFO STREAM k", "XINFO GROUPS k", "XINFO CONSUMERS k g"} {
		cases = append(cases, streamCase{line, wrongType})
	}
	runStreamCases(t, append([]streamCase{{"SET k v", "+OK"}}, cases...))
}

// TestXAddTime: XADD * uses the present time as the id.
func TestXAddTime(t *testing.T) {
	db := enginetest.Open(t)
	before := time.Now().UnixMilli()
	last := int64(0)
	for range 3 {
		id := strings.Split(do(t, db, "XADD", "s", "*", "f", "v"), "\r\n")[1]
		ms, err := strconv.ParseInt(id[:strings.IndexByte(id, '-')], 10, 64)
		if err != nil || ms < before || ms < last || ms > time.Now().UnixMilli() {
			t.Errorf("id %s, the time is %d", id, before)
		}
		last = ms
	}
	if got := do(t, db, "XLEN", "s"); got != ":3\r\n" {
		t.Errorf("length %q", got)
	}
}

// TestParseStreamRead: parsing XREAD returns the options for blocking, and the keys.
func TestParseStreamRead(t *testing.T) {
	for _, c := range []struct {
		line    string
		blocks  bool
		timeout time.Duration
		count   uint64
		keys    string
	}{
		{"xread STREAMS a b 1 2", false, 0, 0, "a b"},
		{"xread BLOCK 0 STREAMS a 1", true, 0, 0, "a"},
		{"xread COUNT 5 block 1500 STREAMS a 1", true, 1500 * time.Millisecond, 5, "a"},
		{"xread BLOCK 1 BLOCK 2 COUNT -1 STREAMS STREAMS 1", true, 2 * time.Millisecond, 0, "STREAMS"},
		{"xread BLOCK 9000000000000000000 STREAMS a 1", true, math.MaxInt64 / time.Millisecond * time.Millisecond, 0, "a"},
	} {
		r, err := parseStreamRead(streamArgs(c.line), "xread", false)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		var keys []string
		for _, k := range r.keys {
			keys = append(keys, string(k))
		}
		if r.blocks != c.blocks || r.timeout != c.timeout || r.count != c.count || strings.Join(keys, " ") != c.keys {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
}

func streamArgs(line string) (list [][]byte) {
	for _, w := range strings.Fields(line) {
		list = append(list, []byte(w))
	}
	return list
}

// blockedControl records the wait of a client.
type blockedControl struct {
	Control
	wait Wait
}

func (b *blockedControl) Block(w Wait) error {
	b.wait = w
	return nil
}

// TestStreamWait: whether a command blocks, the arguments with which it is tried again, and the reply of that try.
func TestStreamWait(t *testing.T) {
	const entry = "*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\na\r\n$1\r\n2\r\n"
	const noGroup = "NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
	for _, c := range []struct {
		line   string
		waits  string // the command that is tried again; "" = none
		denied bool   // where it must not wait
		later  string // what happens meanwhile
		want   string // the reply, or the error
	}{
		{"XREAD STREAMS s $", "", false, "", "*-1\r\n"},
		{"XREAD BLOCK 0 STREAMS s $", "", true, "", "*-1\r\n"},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "", true, "", "*-1\r\n"},
		{"XREAD BLOCK 0 STREAMS s x $ 7", "XREAD BLOCK 0 STREAMS s x 1-1 7", false, "XADD s 5-1 a 2",
			"*1\r\n*2\r\n$1\r\ns\r\n" + entry},
		{"XREAD BLOCK 0 STREAMS x s $ $", "XREAD BLOCK 0 STREAMS x s 0-0 1-1", false, "XADD s 1-5 a 2;XDEL s 1-5",
			ErrNotReady.Error()},
		{"XREAD BLOCK 0 STREAMS s $", "XREAD BLOCK 0 STREAMS s 1-1", false, "DEL s", ErrNotReady.Error()},
		{"XREAD BLOCK 0 STREAMS s x $ $", "XREAD BLOCK 0 STREAMS s x 1-1 0-0", false, "SET s v;XADD x 5-1 a 2",
			"*1\r\n*2\r\n$1\r\nx\r\n" + entry},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", false,
			"XADD s 5-1 a 2", "*1\r\n*2\r\n$1\r\ns\r\n" + entry},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", false,
			"XADD x 5-1 a 2", ErrNotReady.Error()},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", false,
			"XGROUP DESTROY s g", noGroup},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", false, "DEL s", noGroup},
		{"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", false, "SET s v",
			"WRONGTYPE Operation against a key holding the wrong kind of value"},
	} {
		db := enginetest.Open(t)
		do(t, db, "XADD", "s", "1-1", "a", "1")
		do(t, db, "XGROUP", "CREATE", "s", "g", "$")
		control := &blockedControl{}
		try := func(args [][]byte, retry, write bool) string {
			spec, err := Resolve(args)
			require.NoError(t, err)
			tx := db.NewTx()
			defer tx.Release()
			tx.Begin(cf.DefaultNamespace)
			for _, k := range spec.AppendKeys(nil, args) {
				tx.AddLock(args[k.Arg], write || k.Write)
			}
			tx.Acquire()
			return writeWith(t, db, func(x *Ctx) {
				x.Args, x.Tx, x.Spec, x.Retry, x.NoBlock = args, tx, spec, retry, c.denied
				x.Sess = &Session{Control: control}
				if err = spec.Handler(x); err == nil {
					err = tx.Commit()
				}
				var coded *engine.Error
				switch {
				case errors.As(err, &coded):
					x.Out.BulkString(coded.Code + " " + coded.Text)
				case err != nil:
					x.Out.BulkString(err.Error())
				}
			})
		}
		got := try(streamArgs(c.line), false, false)
		if waits := string(bytes.Join(control.wait.Args, []byte(" "))); waits != c.waits {
			t.Errorf("%s waits with %q, want %q", c.line, waits, c.waits)
			continue
		}
		if c.waits != "" {
			if got != "" {
				t.Errorf("%s: %q at once", c.line, got)
			}
			for _, line := range strings.Split(c.later, ";") {
				do(t, db, strings.Fields(line)...)
			}
			got = try(control.wait.Args, true, c.later[0] == 'X') // by the client that has written, or by the waiter itself
			if !strings.HasPrefix(c.want, "*") {
				c.want = bulkReply(c.want)
			}
		}
		if got != c.want {
			t.Errorf("%s, then %s: %q, want %q", c.line, c.later, got, c.want)
		}
	}
}

// TestStreamCorrupt: each command that reads a corrupt record replies with an error that names the key.
func TestStreamCorrupt(t *testing.T) {
	const group, consumer = "g", "c"
	sub := func(kind cf.StreamKind) []byte {
		switch kind {
		case cf.StreamGroup:
			return cf.AppendStreamGroupSub(nil, kind, []byte(group))
		case cf.StreamConsumer:
			return cf.AppendStreamConsumerSub(nil, []byte(group), []byte(consumer))
		case cf.StreamPending:
			return cf.AppendStreamPendingSub(nil, []byte(group), cf.StreamID{Ms: 1, Seq: 1})
		}
		return cf.AppendStreamEntrySub(nil, cf.StreamID{Ms: 1, Seq: 1})
	}
	for _, c := range []struct {
		what  string
		spoil func(tx *engine.Tx, rec *engine.Record)
		lines []string
	}{
		{"metadata", func(tx *engine.Tx, rec *engine.Record) { tx.SaveAppend(rec, rec.Tail[:40]) },
			[]string{"XADD s * a b", "XRANGE s - +", "XDEL s 1-1", "XTRIM s MAXLEN 0", "XSETID s 9-9",
				"XREAD STREAMS s 0", "XREADGROUP GROUP g c STREAMS s >",
				"XGROUP CREATE s h 0", "XACK s g 1-1", "XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0", "XPENDING s g",
				"XINFO STREAM s", "XINFO GROUPS s", "XINFO CONSUMERS s g"}},
		{"size", func(tx *engine.Tx, rec *engine.Record) {
			rec.Size = 20
			tx.SaveAppend(rec, rec.Tail)
		}, []string{"XTRIM s MAXLEN 15"}},
		{"entry", func(tx *engine.Tx, rec *engine.Record) { tx.Put(cf.Stream, tx.Subkey(rec, sub(0)), []byte("\x05a")) },
			[]string{"XRANGE s - +", "XREVRANGE s + -", "XRANGE s 1-1 1-1", "XREAD STREAMS s 0",
				"XREADGROUP GROUP g c STREAMS s 0", "XREADGROUP GROUP h c STREAMS s >",
				"XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0", "XINFO STREAM s", "XINFO STREAM s FULL"}},
		{"entry of one field", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, sub(0)),
				[]byte("\x01a"))
		},
			[]string{"XRANGE s - +", "XCLAIM s g d 0 1-1"}},
		{"entry of nothing", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, sub(0)),
				nil)
		}, []string{"XRANGE s - +"}},
		{"id", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, append(sub(0), 'x')), []byte("\x01a\x01b"))
		},
			[]string{"XRANGE s - +", "XTRIM s MAXLEN 0", "XREAD STREAMS s 0"}},
		{"group", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, sub(cf.StreamGroup)), []byte("short"))
		},
			[]string{"XREADGROUP GROUP g c STREAMS s >", "XACK s g 1-1", "XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0",
				"XPENDING s g", "XGROUP SETID s g 0", "XGROUP DESTROY s g",
				"XGROUP CREATECONSUMER s g d", "XGROUP DELCONSUMER s g c", "XINFO GROUPS s", "XINFO CONSUMERS s g",
				"XINFO STREAM s FULL"}},
		{"consumer", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, sub(cf.StreamConsumer)), []byte("short"))
		},
			[]string{"XREADGROUP GROUP g c STREAMS s >", "XACK s g 1-1", "XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0",
				"XPENDING s g", "XPENDING s g - + 5 c",
				"XGROUP CREATECONSUMER s g c", "XGROUP DELCONSUMER s g c", "XINFO CONSUMERS s g", "XINFO STREAM s FULL"}},
		{"consumer's key", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, append(sub(cf.StreamConsumer), 'x')), (&cf.StreamConsumerValue{}).Append(nil))
		}, []string{"XINFO CONSUMERS s g", "XPENDING s g"}},
		{"pending entry", func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, sub(cf.StreamPending)), []byte("short"))
		},
			[]string{"XREADGROUP GROUP g c STREAMS s 0", "XACK s g 1-1", "XCLAIM s g d 0 1-1", "XAUTOCLAIM s g d 0 0",
				"XPENDING s g", "XPENDING s g - + 5", "XGROUP DELCONSUMER s g c", "XINFO STREAM s FULL"}},
	} {
		db := enginetest.Open(t)
		for _, line := range []string{"XADD s 1-1 a b", "XADD s 1-2 a b", "XADD s 1-3 a b", "XGROUP CREATE s g 0",
			"XGROUP CREATE s h 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >"} {
			do(t, db, strings.Fields(line)...)
		}
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("s")}, func(tx *engine.Tx) error {
			rec, err := tx.Load([]byte("s"), cf.TypeStream)
			if err == nil {
				c.spoil(tx, &rec)
			}
			return err
		}))
		for _, line := range c.lines {
			if got := do(t, db, strings.Fields(line)...); !strings.HasPrefix(got, `-ERR key "s": `) ||
				!strings.Contains(got, "corrupt record") {
				t.Errorf("corrupt %s, %s: %q", c.what, line, got)
			}
		}
	}
}
