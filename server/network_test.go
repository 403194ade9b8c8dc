//go:build linux

package server_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// inNamespace is an environment variable of the process that TestNetwork starts in a network namespace of its own.
const inNamespace = "BASALT_TEST_NETWORK"

// TestNetwork switches off the network between a master, its replica and its clients, like a pulled cable: no
// connection ends, and packets arrive late or never. Unlike in TestFaults, the kernel's TCP determines the
// consequences. The test runs in a process that has its own loopback interface.
func TestNetwork(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		runInNamespace(t)
		return
	}
	network(t, true)
	for _, tt := range []struct {
		name  string
		fault func(x *throughProxy)
	}{
		{"off for a moment", func(x *throughProxy) {
			network(x.t, false)
			servertest.Eventually(x.t, "the replica receives nothing", func() bool {
				st, _ := x.r.Replica().Status()
				return time.Since(st.LastIO) > 300*time.Millisecond
			})
			network(x.t, true)
		}},
		{"off until the master disconnects the replica", func(x *throughProxy) {
			network(x.t, false)
			message := make([]byte, 256<<10) // several messages are larger than the buffers of the sockets
			servertest.Eventually(x.t, "the replica is disconnected", func() bool {
				err := x.m.DB.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
					tx.Put(cf.PubSub, []byte("channel"), message)
					return nil
				})
				require.NoError(x.t, err)
				return x.m.Master().Connected() == 0
			})
			network(x.t, true)
		}},
		// The master accepts the new connection before it notices the end of the old one.
		{"a new connection before the end of the old one", func(x *throughProxy) {
			network(x.t, false)
			x.r.Replica().Follow("127.0.0.1", portOf(x.t, x.m), false)
			network(x.t, true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := &throughProxy{t: t}
			x.m = startBeside(t, quiet(), "use-rsid-psync", "yes", "replication-send-timeout-ms", "500")
			x.m.Dial(t).RandomWrites(rand.New(rand.NewPCG(1, 1)), 300, false)
			x.r = startBeside(t, quiet(), "use-rsid-psync", "yes", "slaveof", "127.0.0.1 "+strconv.Itoa(portOf(t, x.m)))
			x.write(x.m)
			x.follows()
			tt.fault(x)
			x.follows()
			x.check()
			if n := x.fulls(); n != 0 {
				t.Errorf("%d full synchronisations", n)
			}
		})
	}
}

// portOf returns the TCP port of a server.
func portOf(t *testing.T, h *servertest.Harness) int {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", h.Addr())
	require.NoError(t, err)
	return addr.Port
}

// runInNamespace runs the test in a process with its own network and user namespaces. It skips the test if the system
// does not allow such namespaces.
func runInNamespace(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*servertest.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-test.run=^TestNetwork$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Skipf("network namespaces: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// network brings the loopback interface up or takes it down.
func network(t *testing.T, up bool) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	if up {
		lo.SetUint16(unix.IFF_UP)
	}
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo))
}
