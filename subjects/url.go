package subjects

import "github.com/leakrig/leakrig/leak"

// Remote returns the target for a running program with pprof at address and path pprof. Relative files of access
// start at the working directory.
func Remote(address, pprof string, access leak.Access) (leak.Target, error) {
	r, err := reach(leak.SubjectSpec{Pprof: pprof, Access: access}, address, "")
	if err != nil {
		return leak.Target{}, err
	}
	return r.target, nil
}
