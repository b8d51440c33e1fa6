module leakrig.dev/upstream/pause

go 1.26.0
