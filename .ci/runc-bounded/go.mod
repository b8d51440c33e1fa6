module leakrig.dev/ci/runc-bounded

go 1.26.0
