package compaction

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

var noon = time.Date(2024, 3, 5, 12, 0, 0, 0, time.UTC)

// settings are the defaults: two days, ten percent.
func settings(cron string) Settings {
	c, err := ParseCron(cron)
	if err != nil {
		panic(err)
	}
	return Settings{Cron: c, ForceAge: 48 * time.Hour, ForceMinDeleted: 10}
}

// file makes the properties of a file of the given age of 1000 keys.
func file(name string, age time.Duration, deleted uint64) FileProperties {
	return FileProperties{Name: name, Created: noon.Add(-age), Total: 1000, Deleted: deleted,
		Start: []byte(name + "-start"), Stop: []byte(name + "-stop")}
}

func TestPickFiles(t *testing.T) {
	const day = 24 * time.Hour
	many := func(n int, f FileProperties) (fs []FileProperties) {
		for i := range n {
			f.Name = fmt.Sprintf("m%04d", i)
			fs = append(fs, f)
		}
		return fs
	}
	noKeys := file("n", 3*day, 1000)
	noKeys.Start, noKeys.Stop = nil, nil
	noTotal := file("z", 3*day, 0)
	noTotal.Total = 0
	quiet := file("quiet", day, 0)
	tests := []struct {
		name  string
		files []FileProperties
		want  []string // names, forced ones with !
	}{
		{"no files", nil, nil},
		{"a single file is left alone", []FileProperties{file("a", 3*day, 1000)}, nil},
		{"nothing deleted", []FileProperties{quiet, file("a", 3*day, 0)}, nil},
		{"forced", []FileProperties{quiet, file("a", 48*time.Hour+time.Second, 100)}, []string{"!a"}},
		{"too young to be forced, not above a tenth", []FileProperties{quiet, file("a", 48*time.Hour, 100)}, nil},
		{"too young to be forced, best", []FileProperties{quiet, file("a", 48*time.Hour, 101)}, []string{"a"}},
		{"not enough to be forced", []FileProperties{quiet, file("a", 3*day, 99)}, nil},
		{"best of three", []FileProperties{file("a", day, 200), file("b", day, 300), file("c", day, 250)}, []string{"b"}},
		{"an hour old", []FileProperties{quiet, file("a", time.Hour, 900)}, []string{"a"}},
		{"younger than an hour", []FileProperties{quiet, file("a", time.Hour-time.Second, 900)}, nil},
		{"the budget is one and shuts out the best", []FileProperties{file("a", 3*day, 200), file("b", day, 900)},
			[]string{"!a"}},
		{"the oldest is forced", []FileProperties{file("a", 3*day, 900), file("b", 4*day, 200)}, []string{"!b"}},
		{"files without keys are passed over", []FileProperties{noKeys, file("a", day, 200)}, []string{"a"}},
		{"no counted keys", []FileProperties{noTotal, quiet}, nil},
		{"719 files force one", many(719, file("m", 3*day, 500)), []string{"!m0000"}},
		{"720 files force two", many(720, file("m", 3*day, 500)), []string{"!m0000", "!m0001"}},
		{"budget left for the best", append(many(719, file("m", day, 0)), file("old", 3*day, 150),
			file("b", day, 400)), []string{"!old", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range PickFiles(tt.files, settings(""), noon) {
				name := r.File
				if r.Forced {
					name = "!" + name
				}
				got = append(got, name)
				if len(tt.files) < 10 && (string(r.Start) != r.File+"-start" || string(r.Stop) != r.File+"-stop" || r.Ratio < 0.1) {
					t.Errorf("range %+v", r)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("picked %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPickFilesLeavesItsInput(t *testing.T) {
	files := []FileProperties{file("young", time.Hour, 1), file("old", 99*time.Hour, 1)}
	PickFiles(files, settings(""), noon)
	if files[0].Name != "young" || files[1].Name != "old" {
		t.Error("the caller's slice was reordered")
	}
}

func TestSetCounters(t *testing.T) {
	var f FileProperties
	f.SetCounters(map[string]string{"total_keys": "2", "deleted_keys": "1", "start_key": "a", "stop_key": "b"})
	if f.Total != 2 || f.Deleted != 1 || string(f.Start) != "a" || string(f.Stop) != "b" {
		t.Errorf("%+v", f)
	}
	f.SetCounters(map[string]string{"total_keys": "6000000000", "deleted_keys": "5000000000", "start_key": "a",
		"stop_key": "b"})
	if f.Total != 6000000000 || f.Deleted != 5000000000 {
		t.Errorf("counters over 32 bits: %+v", f)
	}
	for _, bad := range []map[string]string{
		nil,
		{"total_keys": "1", "start_key": "a", "stop_key": "b"},
		{"deleted_keys": "1", "start_key": "a", "stop_key": "b"},
		{"total_keys": "x", "deleted_keys": "1", "start_key": "a", "stop_key": "b"},
		{"total_keys": "1", "deleted_keys": "-1", "start_key": "a", "stop_key": "b"},
	} {
		f.SetCounters(bad)
		if f.Start != nil || f.Stop != nil || f.Total != 0 || f.Deleted != 0 {
			t.Errorf("%v: %+v", bad, f)
		}
	}
}

// checkerTest is a checker with a clock that the test moves and a log of what was done.
type checkerTest struct {
	Checker
	now   time.Time
	s     Settings
	files map[cf.ID][]FileProperties
	fail  map[cf.ID]error
	log   []string
}

func newCheckerTest(cron string) *checkerTest {
	c := &checkerTest{now: noon, s: settings(cron), files: map[cf.ID][]FileProperties{}, fail: map[cf.ID]error{}}
	c.Now = func() time.Time { return c.now }
	c.Checker.Settings = func() Settings { return c.s }
	c.Properties = func(id cf.ID) ([]FileProperties, error) { return c.files[id], c.fail[id] }
	c.CompactRange = func(id cf.ID, start, stop []byte) error {
		c.log = append(c.log, fmt.Sprintf("%s[%s,%s]", id, start, stop))
		return nil
	}
	return c
}

// tick moves the clock, ticks and returns what was done.
func (c *checkerTest) tick(t *testing.T, step time.Duration) string {
	t.Helper()
	c.now = c.now.Add(step)
	c.log = nil
	require.NoError(t, c.Tick(context.Background()))
	return strings.Join(c.log, " ")
}

const daily = "pubsub[,] propagate[,]"

func TestCheckerSchedule(t *testing.T) {
	c := newCheckerTest("*/2 12 * * *")
	for _, id := range []cf.ID{cf.Default, cf.Stream} {
		c.files[id] = []FileProperties{file("a", 3*24*time.Hour, 200), file("b", time.Hour, 0)}
	}
	const picked = "default[a-start,a-stop] stream[a-start,a-stop]"
	steps := []struct {
		step time.Duration
		want string
	}{
		{0, picked + " " + daily},  // 12:00:00, the first look is a new day
		{20 * time.Second, ""},     // the same minute
		{40 * time.Second, ""},     // 12:01 does not match
		{50 * time.Second, ""},     // still 12:01
		{10 * time.Second, picked}, // 12:02
		{59 * time.Second, ""},     //
		{58 * time.Minute, ""},     // 13:00 does not match
		{11 * time.Hour, daily},    // 00:00 the next day
		{time.Hour, ""},            // 01:00
		{11 * time.Hour, picked},   // 12:00
		{24 * time.Hour, picked + " " + daily},
	}
	for i, s := range steps {
		if got := c.tick(t, s.step); got != s.want {
			t.Errorf("step %d, %v: %q, want %q", i, c.now, got, s.want)
		}
	}
}

func TestCheckerWithoutCron(t *testing.T) {
	c := newCheckerTest("")
	c.files[cf.Default] = []FileProperties{file("a", 3*24*time.Hour, 200), file("b", time.Hour, 0)}
	for range 3 {
		if got := c.tick(t, 24*time.Hour); got != "" {
			t.Errorf("with the cron off: %s", got)
		}
	}
	c.s = settings("* * * * *") // set at run time
	if got := c.tick(t, time.Minute); got != "default[a-start,a-stop] "+daily {
		t.Errorf("after the cron was set: %q", got)
	}
}

func TestCheckerErrors(t *testing.T) {
	c := newCheckerTest("* * * * *")
	broken := errors.New("broken")
	c.fail[cf.Default] = broken
	c.files[cf.Metadata] = []FileProperties{file("a", 3*24*time.Hour, 200), file("b", time.Hour, 0)}
	inner := c.CompactRange
	c.CompactRange = func(id cf.ID, start, stop []byte) error {
		_ = inner(id, start, stop)
		if id == cf.PubSub {
			return errors.New("disk full")
		}
		return nil
	}
	err := c.Tick(context.Background())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "disk full") ||
		!strings.Contains(err.Error(), "family default") {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(c.log, " "); got != "metadata[a-start,a-stop] "+daily {
		t.Errorf("done: %s", got)
	}
}

func TestCheckerStopsWithContext(t *testing.T) {
	c := newCheckerTest("* * * * *")
	ctx, cancel := context.WithCancel(context.Background())
	for id := range cf.NumFamilies {
		c.files[id] = []FileProperties{file("a", 3*24*time.Hour, 200), file("b", time.Hour, 0)}
	}
	var told []string
	c.Picked = func(id cf.ID, r Range) { told = append(told, fmt.Sprint(id, " ", r.File, " ", r.Forced)) }
	inner := c.CompactRange
	c.CompactRange = func(id cf.ID, start, stop []byte) error {
		cancel()
		return inner(id, start, stop)
	}
	require.NoError(t, c.Tick(ctx))
	if len(c.log) != 1 || !reflect.DeepEqual(told, []string{"default a true"}) {
		t.Errorf("after the end of the context: %v, told %v", c.log, told)
	}
}
