package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// envtest starts etcd and kube-apiserver by their paths and sets no other attributes, so they would survive a killed
// leakrig. So envtest gets paths of links to this program. The program finds the command next to the link, asks the
// kernel to kill it with leakrig, and executes the command.

// guardSuffix is that of the link to the command.
const guardSuffix = ".guarded"

// guarded returns a path in the folder dir that starts the command as one that dies with leakrig.
func guarded(dir, command string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(dir, filepath.Base(command)))
	if err == nil {
		command, err = filepath.Abs(command)
	}
	if err != nil {
		return "", err
	}
	return path, errors.Join(os.Symlink(self, path), os.Symlink(command, path+guardSuffix))
}

// becomeGuarded does not return where this process was started by such a link.
func becomeGuarded() {
	if !filepath.IsAbs(os.Args[0]) { // a link in the current folder is not ours
		return
	}
	command, err := os.Readlink(os.Args[0] + guardSuffix)
	if err != nil {
		return
	}
	runtime.LockOSThread() // the signal is a setting of the thread
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		err = errno
	} else if os.Getppid() == 1 {
		err = errors.New("leakrig has gone")
	} else {
		err = syscall.Exec(command, os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "start %s: %v\n", command, err)
	os.Exit(1)
}
