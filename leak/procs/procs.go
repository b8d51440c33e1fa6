// Package procs reads the processes of this machine from /proc: who listens at an address, what a program has
// started, and whether a process is still the same one. Without /proc it finds no process.
package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// root is the mount point of procfs.
const root = "/proc"

// Process is one process. The kernel may give its number to another one later, but not with the same start.
type Process struct {
	PID int
	// Start is when it started, in clock ticks since the machine did.
	Start uint64
}

// String is "process 4711 (server)".
func (p Process) String() string {
	name, err := os.ReadFile(filepath.Join(p.dir(), "comm"))
	if err != nil || !p.Alive() {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, strings.TrimSpace(string(name)))
}

func (p Process) dir() string { return filepath.Join(root, strconv.Itoa(p.PID)) }

// Find returns the process that has the number now.
func Find(pid int) (Process, error) {
	s, err := read(pid)
	return s.Process, err
}

// Alive reports whether the process exists and its number was not reused. A zombie is not alive.
func (p Process) Alive() bool {
	s, err := read(p.PID)
	return err == nil && s.Start == p.Start && s.state != 'Z' && s.state != 'X'
}

// Kill ends the process, and no other one that has its number by now.
func (p Process) Kill() error {
	handle, err := os.FindProcess(p.PID) // on Linux a descriptor of the process, which its number's next owner has not
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }()
	if !p.Alive() {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// status is what a line of /proc/PID/stat has of interest here.
type status struct {
	Process
	state                  byte
	parent, group, session int
}

func read(pid int) (status, error) {
	s := status{Process: Process{PID: pid}}
	data, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return s, err
	}
	// The second field is the program's name in brackets, and may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return s, fmt.Errorf("%s/%d/stat: %d fields", root, pid, len(fields))
	}
	s.state = fields[0][0]
	var errs [4]error
	s.parent, errs[0] = strconv.Atoi(fields[1])
	s.group, errs[1] = strconv.Atoi(fields[2])
	s.session, errs[2] = strconv.Atoi(fields[3])
	s.Start, errs[3] = strconv.ParseUint(fields[19], 10, 64)
	return s, errors.Join(errs[:]...)
}

// all are the processes that can be seen.
func all() []status {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var list []status
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := read(pid); err == nil { // else it has ended meanwhile
			list = append(list, s)
		}
	}
	return list
}

// Tree returns the processes of a program: the program itself if it still exists, all its descendants, all processes
// that share a group or a session with one of these, and all with the mark in their environment. Children inherit the
// mark, even in another session and without a parent. mark is "NAME=value", or "" for none.
func Tree(program Process, mark string) []Process {
	seen := all()
	own, _ := read(os.Getpid()) // whose group and session are everybody's here
	members, groups, sessions := map[int]bool{own.PID: false}, map[int]bool{}, map[int]bool{}
	var tree []Process
	for more := true; more; {
		more = false
		for _, s := range seen {
			in := s.Process == program || members[s.parent] || groups[s.group] || sessions[s.session] || mark != "" && s.hasEnv(mark)
			if _, known := members[s.PID]; known || !in {
				continue
			}
			more, members[s.PID] = true, true
			if s.group != own.group {
				groups[s.group] = true
			}
			if s.session != own.session {
				sessions[s.session] = true
			}
			if s.Process == program {
				tree = slices.Insert(tree, 0, s.Process)
			} else {
				tree = append(tree, s.Process)
			}
		}
	}
	return tree
}

func (p Process) hasEnv(variable string) bool {
	env, err := os.ReadFile(filepath.Join(p.dir(), "environ"))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), variable)
}

// Env is the value that a variable had when the process started, "" where that cannot be read.
func (p Process) Env(name string) string {
	env, _ := os.ReadFile(filepath.Join(p.dir(), "environ"))
	for _, kv := range strings.Split(string(env), "\x00") {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// Marked are the processes that have a variable of that name in their environment.
func Marked(name string) []Process {
	var list []Process
	for _, s := range all() {
		if s.Env(name) != "" {
			list = append(list, s.Process)
		}
	}
	return list
}

// KillTree ends all that belongs to a program, until nothing of it is left. What starts while it looks is found the
// next time.
func KillTree(program Process, mark string) error {
	var err error
	for range 50 {
		left := slices.DeleteFunc(Tree(program, mark), func(p Process) bool { return !p.Alive() })
		if len(left) == 0 {
			return nil
		}
		err = nil
		for _, p := range left {
			err = errors.Join(err, p.Kill())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err == nil {
		err = errors.New("it goes on starting processes")
	}
	return fmt.Errorf("end all that it started: %w", err)
}

// Distant is a folder below /proc where each file that is read costs a command.
type Distant interface{ Distant() }

// tick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every system that leakrig runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that a process has used so far, from its folder below /proc: to the nanosecond, without
// that of threads that have ended, or in ticks where the folder is distant.
func CPU(proc fs.FS) (time.Duration, error) {
	if _, distant := proc.(Distant); distant {
		data, err := fs.ReadFile(proc, "stat")
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 13 {
			return 0, fmt.Errorf("stat: %d fields", len(fields))
		}
		user, err1 := strconv.ParseInt(fields[11], 10, 64)
		system, err2 := strconv.ParseInt(fields[12], 10, 64)
		return time.Duration(user+system) * tick, errors.Join(err1, err2)
	}
	tasks, err := fs.ReadDir(proc, "task")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, task := range tasks {
		data, err := fs.ReadFile(proc, "task/"+task.Name()+"/schedstat")
		if err != nil && len(tasks) > 1 {
			continue // it has ended meanwhile
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, err2 := strconv.ParseInt(first, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
