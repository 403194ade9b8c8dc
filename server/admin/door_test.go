package admin

import (
	"io"
	"net"
	"net/http"
	"testing"
)

func TestOpenAndClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := Open(l, options())
	r, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Fatal(string(body), err)
	}
	d.Close()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is open after Close")
	}
}
