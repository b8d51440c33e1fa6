// Package nodeimage builds the image of kind's nodes: Debian packages, commands built from pinned upstream Go
// modules, base files from kind's module, and a few files of leakrig. It builds no cluster and pulls no image.
//
// An image has three layers: Debian, the node's own files, and the images of the control plane, which a unit imports
// into containerd before the kubelet starts. Each image of the control plane contains one static command. The build
// writes tars and runs nothing inside the image.
//
// The build is reproducible: names are sorted, times are fixed, owners are numbers, so the same inputs produce the
// same image ID. The tag is a hash of the inputs that leakrig controls: pins with their sums, main programs, files,
// kind's version, the list of Debian packages and their mirror, and the recipe. Package versions of the mirror are
// not part of it, unless LEAKRIG_DEBIAN_MIRROR is a snapshot of Debian's archive: a point release of bookworm changes
// the image but not the tag, and the cached rootfs keeps its packages. The Go toolchain is not part of it either; `go
// version -m` on a command inside the image prints it.
//
// Slow parts are cached: the rootfs by its inputs, each command by its pins. The rest is assembled while it is
// streamed into the engine, without a temporary archive.
package nodeimage
