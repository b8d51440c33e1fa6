package subjects

import "github.com/leakrig/leakrig/leak"

// Remote is what reads a program that somebody else runs, whose pprof is below address at the path pprof.
// Relative files of access are looked up from the working directory.
func Remote(address, pprof string, access leak.Access) (leak.Target, error) {
	r, err := reach(leak.SubjectSpec{Pprof: pprof, Access: access}, address, "")
	if err != nil {
		return leak.Target{}, err
	}
	return r.target, nil
}
