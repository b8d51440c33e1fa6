package heapdump

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// memfdNumbers has the number of the system call memfd_create by architecture; package syscall does not know it.
var memfdNumbers = map[string]uintptr{"amd64": 319, "arm64": 279, "riscv64": 279, "loong64": 279, "ppc64le": 360}

const closeOnExec = 1 // MFD_CLOEXEC

// memfd returns a new file that is in memory only.
func memfd(name string) (uintptr, error) {
	number, ok := memfdNumbers[runtime.GOARCH]
	if !ok {
		return 0, syscall.ENOSYS
	}
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	fd, _, errno := syscall.Syscall(number, uintptr(unsafe.Pointer(path)), closeOnExec, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("memfd_create", errno)
	}
	return fd, nil
}
