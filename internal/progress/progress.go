// Package progress shows the progress of long work on a terminal: share, rate and remaining time on one line, which is
// overwritten by each update. Without a terminal it shows nothing.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Unit says how amounts are printed.
type Unit int

const (
	Bytes Unit = iota // in KiB, MiB, ...
	Items             // keys, files, records
)

const (
	redrawEvery = 200 * time.Millisecond
	// rateWindow is the time over which the rate is averaged: long enough to be steady, short enough to follow changes.
	rateWindow = 5 * time.Second
)

// Bar is the progress of one piece of work. A nil Bar shows nothing, so that callers need no check. All methods are
// safe for concurrent use.
type Bar struct {
	w     io.Writer
	width func() int
	what  string
	unit  Unit

	mu      sync.Mutex
	total   int64 // 0 = unknown
	done    int64
	note    string
	samples []sample // of the last rateWindow, oldest first
	drawn   bool

	stop chan struct{}
	wg   sync.WaitGroup
}

type sample struct {
	at   time.Time
	done int64
}

// Start shows the progress of work on w, a terminal of width() columns, until [Bar.Stop]. It returns nil if width
// returns 0, which means no terminal. A total of 0 is unknown.
func Start(w io.Writer, width func() int, what string, total int64, unit Unit) *Bar {
	if width == nil || width() == 0 {
		return nil
	}
	b := &Bar{w: w, width: width, what: what, unit: unit, total: total, stop: make(chan struct{})}
	b.samples = []sample{{at: time.Now()}}
	b.wg.Go(func() {
		t := time.NewTicker(redrawEvery)
		defer t.Stop()
		for {
			select {
			case <-b.stop:
				return
			case now := <-t.C:
				b.draw(now)
			}
		}
	})
	return b
}

// Add records that n more bytes or items are done.
func (b *Bar) Add(n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.done += n
	b.mu.Unlock()
}

// Write implements [io.Writer]: it adds the number of bytes.
func (b *Bar) Write(p []byte) (int, error) {
	b.Add(int64(len(p)))
	return len(p), nil
}

// SetTotal sets the total amount of work; 0 = unknown.
func (b *Bar) SetTotal(n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.total = n
	b.mu.Unlock()
}

// Note sets the name of the current work item, such as a file.
func (b *Bar) Note(s string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.note = s
	b.mu.Unlock()
}

// Stop removes the line. It must be called once.
func (b *Bar) Stop() {
	if b == nil {
		return
	}
	close(b.stop)
	b.wg.Wait()
	if b.drawn {
		io.WriteString(b.w, "\r\x1b[K")
	}
}

func (b *Bar) draw(now time.Time) {
	b.mu.Lock()
	line := b.line(now)
	b.drawn = true
	b.mu.Unlock()
	if room := b.width() - 1; utf8.RuneCountInString(line) > room && room > 0 {
		line = string([]rune(line)[:room])
	}
	io.WriteString(b.w, "\r"+line+"\x1b[K")
}

// line returns the status line for a time, which must not go backwards. mu must be held.
func (b *Bar) line(now time.Time) string {
	b.samples = append(b.samples, sample{now, b.done})
	for len(b.samples) > 2 && now.Sub(b.samples[0].at) > rateWindow {
		b.samples = b.samples[1:]
	}
	first := b.samples[0]
	var rate float64 // a second
	if span := now.Sub(first.at).Seconds(); span > 0 {
		rate = float64(b.done-first.done) / span
	}
	var s strings.Builder
	s.WriteString(b.what + "  ")
	if b.total > 0 {
		fmt.Fprintf(&s, "%d%%  %s of %s", min(100, 100*b.done/b.total), b.amount(b.done), b.amount(b.total))
	} else {
		s.WriteString(b.amount(b.done))
	}
	fmt.Fprintf(&s, "  %s/s", b.amount(int64(rate)))
	if left := b.total - b.done; left > 0 && rate > 0 {
		fmt.Fprintf(&s, "  %s left", duration(float64(left)/rate))
	}
	if b.note != "" {
		s.WriteString("  " + b.note)
	}
	return s.String()
}

func (b *Bar) amount(n int64) string {
	if b.unit == Bytes {
		return Size(n)
	}
	return Count(n)
}

// Size formats bytes with a binary unit: "17 B", "4.2 KiB", "310 MiB".
func Size(n int64) string {
	return scaled(n, 1024, " ", []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"})
}

// Count formats a number with a decimal unit: "950", "4.2k", "310M".
func Count(n int64) string {
	return scaled(n, 1000, "", []string{"", "k", "M", "G", "T", "P", "E"})
}

// scaled formats n in the largest unit that is not greater than n, with one decimal below 10.
func scaled(n int64, base float64, blank string, units []string) string {
	v, i := float64(n), 0
	for v >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	format := "%.0f%s%s"
	if i > 0 && v < 9.95 {
		format = "%.1f%s%s"
	}
	return fmt.Sprintf(format, v, blank, units[i])
}

// duration formats seconds in one or two units: "18s", "4m10s", "3h05m".
func duration(seconds float64) string {
	s := int64(min(seconds, 1e9) + 0.5)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
}
