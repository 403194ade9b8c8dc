// Package admin is the HTTP door for those who operate the server: metrics for Prometheus, health, and profiles. It
// knows neither connections of clients nor settings; what it shows is given to it.
package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Options are the options of Open.
type Options struct {
	// Source provides the values of /metrics.
	Source Source
	// Ready returns the reason why the server must not get traffic now, nil when it may: /readyz.
	Ready func() error
	// Administrator reports whether a user name and a password are those of an administrator; without credentials both
	// are empty. Only administrators get profiles. It logs wrong passwords with addr, the address of the request.
	Administrator func(user, password, addr string) bool
	// Console configures the web console, nil = no console.
	Console *Console
	Log     *zap.Logger
}

// Door serves HTTP on one listener.
type Door struct {
	http *http.Server
	addr net.Addr
	done chan struct{}

	consoles *consoles     // nil = no console
	stop     chan struct{} // ends the sampling for the console
}

// Addr returns the address of the listener.
func (d *Door) Addr() net.Addr { return d.addr }

// writeTimeout is the max time from a request to the end of its answer. Tests lower it.
var writeTimeout = 30 * time.Second

// Open serves on a listener until Close. The door owns the listener.
func Open(l net.Listener, o Options) *Door {
	d := &Door{addr: l.Addr(), done: make(chan struct{}), stop: make(chan struct{})}
	if o.Console != nil {
		d.consoles = &consoles{Console: *o.Console, history: &history{source: o.Source},
			sessions: map[string]*consoleSession{}}
		go d.consoles.history.run(d.stop)
	}
	d.http = &http.Server{
		Handler: handler(o, d.consoles),
		// A client that sends half a request, or does not read, must not keep a connection for ever, nor one of the
		// scrapes that may run at once. Package pprof adds the duration of a profile.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          zap.NewStdLog(o.Log),
	}
	go func() {
		defer close(d.done)
		if err := d.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the admin listener ends", zap.Error(err))
		}
	}()
	return d
}

// Close ends all connections and waits for the end of the door. Running requests have a second to end.
func (d *Door) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.http.Shutdown(ctx) != nil {
		d.http.Close()
	}
	<-d.done
	close(d.stop)
	if d.consoles != nil {
		d.consoles.close()
	}
}

// handler handles the requests:
//
//	GET /metrics         all metrics in the text format of Prometheus
//	GET /healthz         200 while the process answers
//	GET /readyz          200, or 503 and the reason
//	GET /debug/pprof/... Go's profiles, for administrators (HTTP basic authentication)
//
// and the requests of the console, see [Console].
func handler(o Options, c *consoles) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), &collector{source: o.Source})
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(o.Log), ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline,
		"profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.Handle("GET /debug/pprof/"+path, o.forAdministrators(h))
	}
	if c != nil {
		c.register(mux)
	}
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that has disconnected needs no reply
}

// forAdministrators wraps a handler that only administrators may reach.
func (o *Options) forAdministrators(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !o.Administrator(user, password, r.RemoteAddr) {
			w.Header().Set("WWW-Authenticate", `Basic realm="basalt", charset="UTF-8"`)
			answer(w, http.StatusUnauthorized, "for administrators: a user who may run every command, or requirepass")
			return
		}
		h.ServeHTTP(w, r)
	})
}
