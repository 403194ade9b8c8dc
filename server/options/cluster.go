package options

import (
	"net"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/server/config"
)

// IsSelf reports whether the node of a topology at host and port is this server, which listens on the port own: by its
// port, and by an address that the server listens on.
func IsSelf(cfg *config.Config, own int, host string, port int) bool {
	if port != own && port != int(cfg.Int("tls-port")) {
		return false
	}
	bind := cfg.Bind()
	for i, word := range bind {
		bind[i] = strings.TrimPrefix(word, "-")
	}
	if slices.Contains(bind, host) {
		return true
	}
	if !slices.Contains(bind, "0.0.0.0") && !slices.Contains(bind, "::") {
		return false
	}
	ip := net.ParseIP(host)
	addrs, err := net.InterfaceAddrs()
	return err == nil && ip != nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
