// Package nodeimage builds the image that kind's nodes run: Debian packages, commands built from pinned
// upstream Go modules, kind's own base files out of kind's module, and a few files of leakrig. It builds
// no cluster and pulls no image.
//
// An image has three layers: Debian, the node's own files, and the images of the control plane, which a
// unit imports into containerd before the kubelet starts. Each image of the control plane holds one
// static command. Nothing runs inside the image while it is made: tars are written, not containers.
//
// What is reproducible. Names are sorted, times are fixed, owners are numbers: the same inputs give the
// same image ID, from debootstrap on. The tag is a hash over the inputs that leakrig decides: pins with their sums, main
// programs, files, kind's version, the list of Debian packages and their mirror, the recipe. Which versions of the
// packages a mirror serves is not among them (a point release of bookworm changes the image, not the tag; the cached
// rootfs keeps what was served when it was made), unless LEAKRIG_DEBIAN_MIRROR names one that never changes: a snapshot
// of Debian's archive. Nor is the Go toolchain (`go version -m` on a command inside the image tells).
//
// What takes long is cached: the rootfs by its own inputs, each command by its pins. The rest is
// assembled while it is streamed into the engine, so no archive lies around.
package nodeimage
