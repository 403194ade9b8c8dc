package maintenance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// fixture is work whose settings the test changes before it starts something.
type fixture struct {
	*Work
	settings Settings
	full     bool
	used     uint64
	logs     *observer.ObservedLogs
}

func newFixture(t *testing.T) *fixture {
	core, logs := observer.New(zap.DebugLevel)
	f := &fixture{logs: logs}
	f.Work = New(Options{DB: enginetest.Open(t), Log: zap.New(core), HeapPlanned: 1 << 30,
		Settings: func() Settings { return f.settings },
		DiskSize: func() uint64 { return f.used },
		SetFull: func(full bool) bool {
			changed := f.full != full
			f.full = full
			return changed
		},
	})
	t.Cleanup(func() {
		f.Stop()
		f.Wait()
	})
	return f
}

// idle waits for the backup or compaction that runs.
func (f *fixture) idle() { f.wg.Wait() }

func TestBackups(t *testing.T) {
	f := newFixture(t)
	if err := f.Save(); err != errNoBackup {
		t.Errorf("without a directory: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	f.settings = Settings{BackupDir: dir, KeepBackups: true, KeepFor: 24 * time.Hour}
	exists := func() bool { _, err := os.Stat(dir + "/CURRENT"); return err == nil }
	f.lastSave.Store(1)
	if err := f.Save(); err != nil || !exists() {
		t.Fatalf("no backup: %v", err)
	}
	if st := f.Status(); st.Saving || st.SaveFailed || st.SaveTook < 0 || st.Saves != 1 || st.LastSave.Unix() <= 1 {
		t.Errorf("%+v", st)
	}
	f.purgeBackup(time.Now().Add(23 * time.Hour))
	if !exists() {
		t.Error("a backup of 23 hours was removed; 24 are allowed")
	}
	f.backup.Lock() // as a backup that replaces this one
	f.purgeBackup(time.Now().Add(25 * time.Hour))
	f.backup.Unlock()
	if !exists() {
		t.Error("a backup was removed while it was replaced")
	}
	f.purgeBackup(time.Now().Add(25 * time.Hour))
	if exists() {
		t.Error("a backup of 25 hours was kept")
	}
	require.NoError(t, f.BackgroundSave())
	f.idle()
	f.settings.KeepBackups = false
	if f.purgeBackup(time.Now()); exists() {
		t.Error("a backup was kept that is not to be")
	}
	f.saving.Store(true)
	if err := f.BackgroundSave(); err != errSaving {
		t.Errorf("a second backup at a time: %v", err)
	}
	f.saving.Store(false)

	// The directory cannot be made. The failure is reported, and the next backup may succeed.
	f.settings.BackupDir = filepath.Join(dir, "in", "none")
	if err := f.Save(); err == nil || !f.Status().SaveFailed || f.Status().Saves != 2 {
		t.Errorf("%v, %+v", err, f.Status())
	}
	f.settings.BackupDir = dir
	if err := f.Save(); err != nil || f.Status().SaveFailed {
		t.Errorf("%v, %+v", err, f.Status())
	}
	f.FlushBackup()
	f.idle()
	if exists() {
		t.Error("FlushBackup has left the backup")
	}
	f.Stop()
	if err := f.Save(); err != errClosing {
		t.Errorf("after Stop: %v", err)
	}
	if f.Status().Saving {
		t.Error("a backup that did not begin counts as one that runs")
	}
}

// A new backup takes the place of the old one in one step: whoever looks finds one of them, whole. Its tables are hard
// links.
func TestBackupIsAlwaysThere(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Join(t.TempDir(), "backup")
	f.settings = Settings{BackupDir: dir, KeepBackups: true}
	require.NoError(t, f.Save())
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := os.Stat(dir + "/CURRENT"); err != nil {
				done <- err
				return
			}
		}
	}()
	for i := range 5 {
		require.NoError(t, f.DB.Update(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte{byte(i)}, str.SetOptions{})
			return err
		}))
		require.NoError(t, f.Save())
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + ".tmp"); err == nil {
		t.Error("the old backup is left")
	}
	tables, err := filepath.Glob(dir + "/*.sst")
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		info, err := os.Stat(table)
		require.NoError(t, err)
		if original, err := os.Stat(filepath.Join(f.DB.Dir(), filepath.Base(table))); err == nil &&
			!os.SameFile(info, original) {
			t.Errorf("%s is a copy", table)
		}
	}
}

// A backup replaces its directory, and the removal of a backup removes the directory. A directory that is no backup
// therefore stays as it is: photos, or the database itself.
func TestBackupDirectoryIsNoBackup(t *testing.T) {
	f := newFixture(t)
	photos := filepath.Join(t.TempDir(), "photos")
	require.NoError(t, os.Mkdir(photos, 0o755))
	require.NoError(t, os.WriteFile(photos+"/cat.jpg", []byte("x"), 0o644))
	nested := filepath.Join(t.TempDir(), "nested")
	require.NoError(t, os.MkdirAll(nested+"/1", 0o755))
	for _, dir := range []string{photos, photos + "/", nested, f.DB.Dir(), f.DB.Dir() + "/"} {
		before, err := os.ReadDir(dir)
		require.NoError(t, err)
		f.settings = Settings{BackupDir: dir, KeepBackups: true, KeepFor: time.Nanosecond}
		if err := f.Save(); err == nil || !strings.Contains(err.Error(), "is not a backup") || !f.Status().SaveFailed {
			t.Errorf("%s: %v", dir, err)
		}
		f.purgeBackup(time.Now().Add(time.Hour))
		f.FlushBackup()
		f.idle()
		after, err := os.ReadDir(dir)
		if err != nil || len(after) < len(before) {
			t.Fatalf("%s: %d files of %d are left: %v", dir, len(after), len(before), err)
		}
	}
}

// A backup-dir may end in a slash, may exist, and may be a symbolic link, which stays.
func TestBackupDirectoryForms(t *testing.T) {
	f := newFixture(t)
	base := t.TempDir()
	for _, dir := range []string{"/new/", "/empty/", "/target"} {
		if dir != "/new/" {
			require.NoError(t, os.Mkdir(base+dir, 0o755))
		}
	}
	require.NoError(t, os.Symlink("target", base+"/link"))
	for _, dir := range []string{"/new/", "/empty/", "/link"} {
		f.settings = Settings{BackupDir: base + dir, KeepBackups: true}
		for range 2 {
			if err := f.Save(); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if _, err := os.Stat(base + dir + "/CURRENT"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"LOCK", "LOG", "LOG.old.1"} { // a tool has opened the backup
		require.NoError(t, os.WriteFile(base+"/new/"+name, nil, 0o644))
	}
	f.settings.BackupDir = base + "/new"
	require.NoError(t, f.Save())
	f.settings.BackupDir = f.DB.Dir()
	if err := f.Save(); err == nil || !strings.Contains(err.Error(), "is not a backup") {
		t.Error("the database itself as backup-dir:", err)
	}
	if to, err := os.Readlink(base + "/link"); to != "target" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
}

func TestSchedules(t *testing.T) {
	f := newFixture(t)
	cron := func(text string) compaction.Cron {
		c, err := compaction.ParseCron(text)
		require.NoError(t, err)
		return c
	}
	f.settings = Settings{BackupDir: filepath.Join(t.TempDir(), "backup"), KeepBackups: true,
		SaveCron: cron("30 4 29 2 *"), CompactCron: cron("31 4 29 2 *")}
	f.lastSave.Store(1)
	at := time.Date(2024, 2, 29, 4, 29, 0, 0, time.Local)
	for minute, want := range []struct{ saves, compactions int }{{0, 0}, {1, 0}, {1, 1}, {1, 1}} {
		f.schedules(at.Add(time.Duration(minute) * time.Minute))
		f.idle()
		saves, compactions := f.logs.FilterMessage("backup made").Len(), f.logs.FilterMessage("compaction done").Len()
		if saves != want.saves || compactions != want.compactions {
			t.Errorf("after %d minutes: %d backups, %d compactions, want %+v", minute, saves, compactions, want)
		}
	}
	f.settings.Checker.Cron = cron("* * * * *")
	f.settings.CompactCron = cron("34 4 29 2 *")
	f.schedules(at.Add(5 * time.Minute))
	f.idle()
	if n := f.logs.FilterMessage("compaction done").Len(); n != 1 {
		t.Error("compact-cron acts although the checker has a schedule")
	}
}

func TestCompact(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.DB.Update(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("k"), []byte("v"), str.SetOptions{})
		return err
	}))
	require.NoError(t, f.Compact(""))
	f.idle()
	f.compacting.Store(true)
	if err := f.Compact(""); err != errCompacting {
		t.Errorf("a second compaction at a time: %v", err)
	}
	f.compacting.Store(false)
	files, err := f.fileProperties(cf.Metadata)
	if err != nil || len(files) == 0 {
		t.Fatalf("no table files after a compaction: %v", err)
	}
	if p := files[0]; p.Total != 1 || len(p.Start) == 0 || time.Since(p.Created) > time.Hour {
		t.Errorf("file properties %+v", p)
	}
}

func TestCheckSize(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct {
		limit, used uint64
		full        bool
		lines       int
	}{{0, 100, false, 0}, {100, 99, false, 0}, {100, 100, true, 1}, {100, 200, true, 1}, {300, 200, false, 2}, {100,
		200, true, 3}, {0, 200, false, 4}} {
		f.settings.MaxSize, f.used = tt.limit, tt.used
		if f.CheckSize(); f.full != tt.full || f.logs.Len() != tt.lines {
			t.Errorf("%+v: full is %v, %d lines", tt, f.full, f.logs.Len())
		}
	}
}

// A task runs at its times, and one for every tick at each of them.
func TestTasks(t *testing.T) {
	begin := time.Unix(1000, 0)
	var ticks, rare []time.Duration
	often := task{every: Tick, next: begin.Add(Tick), run: func(now time.Time) { ticks = append(ticks, now.Sub(begin)) }}
	seldom := task{every: time.Second, next: begin.Add(time.Second), run: func(now time.Time) {
		rare = append(rare,
			now.Sub(begin))
	}}
	for i := 1; i <= 35; i++ {
		now := begin.Add(time.Duration(i)*Tick - time.Duration(i%2)) // a ticker is not exact
		often.runAt(now)
		seldom.runAt(now)
	}
	if len(ticks) != 35 || len(rare) != 3 {
		t.Errorf("%d and %v", len(ticks), rare)
	}
}

// Start runs the tasks, and Stop ends them.
func TestStart(t *testing.T) {
	f := newFixture(t)
	ran := make(chan bool, 1)
	f.Every(Tick, func(time.Time) {
		select {
		case ran <- true:
		default:
		}
	})
	f.Start()
	<-ran
	f.Stop()
	f.Stop() // twice does no harm
	f.Wait()
}

// TestReplacedMeanwhile: work that meets a database that is being replaced is no fault.
func TestReplacedMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.settings = Settings{ExpiredPercent: 50}
	require.NoError(t, f.DB.Close())
	if _, err := f.DB.CompactExpired(50, f.DB.CompactionClock()); err == nil {
		t.Fatal("a closed database was compacted")
	}
	f.reclaim(time.Now())
	if n := f.logs.FilterLevelExact(zap.ErrorLevel).Len() + f.logs.FilterLevelExact(zap.WarnLevel).Len(); n > 0 {
		t.Errorf("logged: %v", f.logs.All())
	}
}
