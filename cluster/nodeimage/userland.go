package nodeimage

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/leakrig/leakrig/cluster/tarfile"
)

// packetFilters are iptables and nft with every library that they load, out of Debian's rootfs: what
// kube-proxy runs. Of iptables it is the nft flavour alone, which every kernel of the last years has.
func packetFilters(base tarfile.Index) ([]tarfile.Entry, error) {
	c := closure{base: base, libraries: librariesOf(base), files: map[string]tarfile.Entry{}}
	roots := []string{"usr/sbin/xtables-nft-multi", "usr/sbin/nft"}
	for name := range base {
		if ok, _ := path.Match("usr/lib/*/xtables/*.so", name); ok {
			roots = append(roots, name) // iptables loads its matches and targets by name
		}
	}
	for _, root := range roots {
		if err := c.add(root); err != nil {
			return nil, err
		}
	}
	entries := []tarfile.Entry{
		tarfile.Folder("run"), // for iptables' lock
		tarfile.Symlink("lib", "usr/lib"),
		tarfile.Symlink("lib64", "usr/lib64"),
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		entries = append(entries, tarfile.Symlink("usr/sbin/"+name, "xtables-nft-multi"))
	}
	for _, e := range c.files {
		entries = append(entries, e)
	}
	return entries, nil
}

// closure collects programs and their shared libraries.
type closure struct {
	base      tarfile.Index
	libraries map[string]string // path by soname
	files     map[string]tarfile.Entry
}

// librariesOf finds the shared libraries of a rootfs.
func librariesOf(base tarfile.Index) map[string]string {
	found := map[string]string{}
	for name := range base {
		if ok, _ := path.Match("usr/lib/*/*.so*", name); ok {
			found[path.Base(name)] = name
		}
	}
	return found
}

// add takes a program or library with everything below it. A link becomes the file at its end.
func (c *closure) add(name string) error {
	if _, done := c.files[name]; done {
		return nil
	}
	e, ok := c.base.Follow(name)
	if !ok {
		return fmt.Errorf("%s is not in the rootfs", name)
	}
	e.Name = name
	c.files[name] = e
	needed, loader, err := linkedWith(e)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if loader != "" {
		if err := c.add("usr" + loader); err != nil { // /lib64 is a link to usr/lib64
			return err
		}
	}
	for _, soname := range needed {
		if strings.HasPrefix(soname, "ld-linux") {
			continue // named again as a library; it comes as the loader
		}
		library, ok := c.libraries[soname]
		if !ok {
			return fmt.Errorf("%s needs %s, which is not in the rootfs", name, soname)
		}
		if err := c.add(library); err != nil {
			return err
		}
	}
	return nil
}

// linkedWith reads the libraries and the loader that an ELF file asks for.
func linkedWith(e tarfile.Entry) (needed []string, loader string, err error) {
	if e.Mode&fs.ModeType != 0 {
		return nil, "", errors.New("not a regular file")
	}
	r, err := e.Open()
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	at, ok := r.(io.ReaderAt)
	if !ok {
		return nil, "", errors.New("cannot be read at an offset")
	}
	f, err := elf.NewFile(at)
	if err != nil {
		return nil, "", err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path := make([]byte, p.Filesz)
			if _, err := p.ReadAt(path, 0); err != nil {
				return nil, "", err
			}
			loader = strings.TrimRight(string(path), "\x00")
		}
	}
	needed, err = f.ImportedLibraries()
	return needed, loader, err
}
