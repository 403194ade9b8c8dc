package migrate

import (
	"context"
	"fmt"
	"sync"
)

// copyRun is a copier that runs.
type copyRun struct {
	*copier
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // once ended is closed
	once   sync.Once
}

func (r *copyRun) start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.ended = make(chan struct{})
	go func() {
		r.err = r.run(ctx)
		close(r.ended)
	}()
}

// status implements mover.
func (r *copyRun) status() (status, error) {
	select {
	case <-r.ended:
		return status{}, finalError{r.err}
	default:
	}
	s := status{streaming: r.stage.Load() == streaming, done: r.moved.Load(), total: r.total.Load(),
		keys: r.from.kind != Redis, offset: r.applied()}
	if text := r.trouble.Load(); text != nil {
		s.note = *text
	}
	return s, nil
}

// mark implements mover.
func (r *copyRun) mark() (string, error) { return fmt.Sprint(r.copied.Load()), nil }

// stop implements mover.
func (r *copyRun) stop() {
	r.once.Do(r.cancel)
	<-r.ended
}

// finish implements mover: it deletes the position.
func (r *copyRun) finish() error {
	r.stop()
	k, err := open(r.to.ctx, r.to, r.to.addr.DB)
	if err != nil {
		return err
	}
	defer k.close()
	_, err = k.do("DEL", PositionKey)
	return err
}
