package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// DefaultPause is the max time for which the source's writes wait.
const DefaultPause = time.Minute

// fence is the min-replicas-to-write of a source that must refuse writes: no server has so many replicas.
const fence = 10_000

// cutOver makes the target independent once it has all writes of the source.
func (m *migration) cutOver() (err error) {
	role, err := m.from.info("replication")
	if err != nil {
		return err
	}
	if role["role"] == "slave" {
		return errors.New("the source is a replica: the cut-over is for its master")
	}
	until := time.Now().Add(m.o.Pause)
	paused, err := m.pause()
	if err != nil {
		return err
	}
	ctx := m.ctx
	if paused {
		begin := time.Now()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(m.ctx, until, fmt.Errorf("the source's writes have waited for %v: the "+
			"cut-over is given up; --pause gives more time, --sample and --no-compare need less", m.o.Pause))
		defer cancel()
		defer func() {
			m.result.Paused = time.Since(begin).Seconds()
			if m.result.Source == "" { // without a fence
				err = errors.Join(err, m.from.undo("CLIENT", "UNPAUSE"))
			}
		}()
	}
	if err := m.hand(ctx, paused); err != nil {
		if ctx.Err() != nil && m.ctx.Err() == nil {
			err = context.Cause(ctx)
		}
		return err
	}
	return nil
}

// hand completes the cut-over while no client writes.
func (m *migration) hand(ctx context.Context, paused bool) error {
	if err := m.catchUp(ctx, true); err != nil {
		return err
	}
	before, err := m.mover.mark()
	if err != nil {
		return err
	}
	if err := m.compare(ctx, m.settle); err != nil {
		return err
	}
	if c := m.result.Comparison; c != nil && c.Differ > 0 && !m.o.AcceptDifferences {
		return ErrDiffer
	}
	if m.copier != nil && len(m.copier.left.list()) > 0 && !m.o.AcceptDifferences {
		return ErrLeftOut
	}
	if err := m.catchUp(ctx, true); err != nil {
		return err
	}
	after, err := m.mover.mark()
	if err != nil {
		return err
	}
	if before != after && !paused { // during a pause only expiries change anything
		m.warn("the source has taken writes during the cut-over; the target has those of before %s",
			time.Now().Format(time.TimeOnly))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	undo := m.fence(paused)
	if err := m.mover.finish(); err != nil {
		undo()
		return fmt.Errorf("the target: %w", err)
	}
	m.result.CutOver, m.result.Following = true, false
	return nil
}

// The errors of a cut-over that was not done.
var (
	ErrDiffer  = errors.New("the two sides differ: the cut-over was not done; --accept-differences does it all the same")
	ErrLeftOut = errors.New("something was left out: the cut-over was not done; --accept-differences does it all the same")
)

// pause makes the writers of the source wait. It fails if that is impossible and the writers were not stopped.
func (m *migration) pause() (bool, error) {
	_, err := m.from.do("CLIENT", "PAUSE", strconv.FormatInt(m.o.Pause.Milliseconds(), 10), "WRITE")
	if err == nil {
		return true, nil
	}
	if m.o.WritersStopped {
		return false, nil
	}
	return false, fmt.Errorf("the source cannot pause writes: stop its writers, and say --writers-stopped: %w", err)
}

// fence makes the source refuse writes from clients that still use it; undo reverts that. Where it is impossible,
// writes keep waiting for some time.
func (m *migration) fence(paused bool) (undo func()) {
	const setting, lag = "min-replicas-to-write", "min-replicas-max-lag"
	old, err := m.from.setting(setting)
	if seconds, e := m.from.setting(lag); err == nil && e == nil && old != "" && seconds != "0" {
		if _, err = m.from.do("CONFIG", "SET", setting, strconv.Itoa(fence)); err == nil {
			if paused { // waiting clients get the error
				m.from.undo("CLIENT", "UNPAUSE")
			}
			m.result.Source = fmt.Sprintf("refuses writes: %s is %d, and was %s", setting, fence, old)
			return func() {
				m.result.Source = ""
				m.from.undo("CONFIG", "SET", setting, old)
			}
		}
	}
	if !paused {
		m.result.Source = "takes writes still"
		return func() { m.result.Source = "" }
	}
	m.from.do("CLIENT", "PAUSE", strconv.FormatInt(m.o.Pause.Milliseconds(), 10), "WRITE")
	m.result.Source = "lets writes wait until " + time.Now().Add(m.o.Pause).Format(time.TimeOnly) + ", and takes them then"
	return func() { m.result.Source = "" }
}
