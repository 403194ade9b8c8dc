package engine_test

import "syscall"

// nowCPU returns the nanoseconds of processor time that this process has used: on a machine with other work a
// better measure of what an operation costs than the clock.
func nowCPU() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
