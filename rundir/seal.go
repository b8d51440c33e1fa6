package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// sealedSince is the first version of records whose every file is covered by a checksum.
const sealedSince = 2

// Seal reports whether a run directory is unchanged since leakrig wrote it. It detects only changes without new
// checksums. Everyone with write access can compute new checksums.
type Seal struct {
	// Altered describes each changed file.
	Altered []string
	// Unsealed is set for a record of a version that had no seals.
	Unsealed bool
}

// Holds reports whether all files are unchanged.
func (s Seal) Holds() bool { return len(s.Altered) == 0 && !s.Unsealed }

// maxAltered is how many altered files a seal names.
const maxAltered = 3

// String describes the problem in a sentence, "" if the seal holds.
func (s Seal) String() string {
	switch n := len(s.Altered); {
	case n > maxAltered:
		return fmt.Sprintf("the record was altered: %s; and %d more", strings.Join(s.Altered[:maxAltered], "; "), n-maxAltered)
	case n > 0:
		return "the record was altered: " + strings.Join(s.Altered, "; ")
	case s.Unsealed:
		return "the record has no seal: an older leakrig wrote it, and changes since then cannot be detected"
	}
	return ""
}

// SealHint says what to do about a seal that does not hold.
const SealHint = "if you know why, accept it with --accept-altered; docs/records.md lists what the seal covers"

// Sealed is a JSON text that json.MarshalIndent made with the indentation " ", with a checksum of all of it as one
// more member.
func Sealed(text []byte) []byte { return sealedFor("", text) }

// CheckSeal reports whether a text from Sealed has its checksum, and whether the checksum matches.
func CheckSeal(text []byte) (sealed, fits bool) { return checkSum("", text) }

// sealedFor is Sealed with a checksum that also covers to, which is not part of the text.
func sealedFor(to string, text []byte) []byte {
	sum := sha256.Sum256(slices.Concat([]byte(to), text))
	open := bytes.TrimSuffix(text, []byte("\n}"))
	return slices.Concat(open, []byte(",\n \"sha256\": \""+hex.EncodeToString(sum[:])+"\"\n}\n"))
}

// sumLine is how a checksum looks, and half of it where the other half was damaged.
var sumLine = regexp.MustCompile(`"sha256"|[0-9a-f]{32}`)

func checkSum(to string, text []byte) (sealed, fits bool) {
	if !sumLine.Match(text[max(0, len(text)-100):]) {
		return false, false
	}
	i := bytes.LastIndex(text, []byte(",\n \"sha256\": "))
	return true, i >= 0 && bytes.Equal(sealedFor(to, append(slices.Clone(text[:i]), "\n}"...)), text)
}

// recordSum returns the checksum in run.json, "" if it has none.
func (d Dir) recordSum() string {
	f, err := os.Open(d.Path(RecordFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	tail := make([]byte, 100)
	n, _ := f.ReadAt(tail, max(0, end-int64(len(tail))))
	_, after, _ := bytes.Cut(tail[:n], []byte(`"sha256": "`))
	sum, _, _ := bytes.Cut(after, []byte(`"`))
	return string(sum)
}

// Depth is how much of a run directory is compared with its seal.
type Depth int

// The depths. Each includes those before it.
const (
	// OfRecord is what a judgement rests on: run.json and scenario.yaml.
	OfRecord Depth = iota
	// OfFiles adds the raw files that the record names.
	OfFiles
)

// ReadSealed is ReadRecord and also reports whether the record and its files are unchanged. Samples no longer name
// raw files that are missing.
func (d Dir) ReadSealed(depth Depth) (*leak.Record, Seal, error) {
	r, seal, err := d.readRecord()
	if err != nil {
		return r, seal, err
	}
	named := map[string]bool{}
	if depth >= OfFiles {
		named = rawFiles(r)
	}
	named[ScenarioFile] = true
	missing := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if r.Schema < sealedSince { // there is nothing to hold it against
			_, err := os.Lstat(d.Path(filepath.FromSlash(name)))
			missing[name] = errors.Is(err, fs.ErrNotExist)
			continue
		}
		switch sum, err := d.Hash(name); {
		case errors.Is(err, fs.ErrNotExist):
			seal.Altered = append(seal.Altered, name+" is gone")
			missing[name] = true
		case err != nil:
			seal.Altered = append(seal.Altered, name+" cannot be read")
		case r.Hashes[name] == "":
			seal.Altered = append(seal.Altered, name+" is not one of the files that the record covers")
		case r.Hashes[name] != sum:
			seal.Altered = append(seal.Altered, name+" was changed after it was written")
		}
	}
	if len(missing) > 0 {
		for s := range everySample(r) {
			s.Files = slices.DeleteFunc(s.Files, func(name string) bool { return missing[name] })
		}
	}
	return r, seal, nil
}

// CheckVerdict adds problems of verdict.json to the seal of its record. A run without a verdict is valid: it was not
// judged yet.
func (d Dir) CheckVerdict(seal Seal) Seal {
	data, err := d.readFile(VerdictFile)
	if err != nil || seal.Unsealed {
		return seal
	}
	switch sealed, fits := checkSum(d.recordSum(), data); {
	case !sealed:
		seal.Altered = append(slices.Clip(seal.Altered), VerdictFile+" has no checksum")
	case !fits:
		seal.Altered = append(slices.Clip(seal.Altered), VerdictFile+" was changed after it was written, or is that of another record")
	}
	return seal
}

// Hash is the SHA-256 of a regular file of the run directory, in hexadecimal digits.
func (d Dir) Hash(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("%s leads out of the run directory", name)
	}
	path := d.Path(filepath.FromSlash(name))
	if info, err := os.Lstat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// HashOf is the hash of a file with these contents.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// KeepHashes forgets the hashes of raw files that no sample names any more.
func KeepHashes(r *leak.Record) {
	named := rawFiles(r)
	maps.DeleteFunc(r.Hashes, func(name, _ string) bool { return name != ScenarioFile && !named[name] })
}

// rawFiles are the raw files that the samples name.
func rawFiles(r *leak.Record) map[string]bool {
	files := map[string]bool{}
	for s := range everySample(r) {
		for _, name := range s.Files {
			files[name] = true
		}
	}
	return files
}

// everySample yields the samples of all variants and their replicas.
func everySample(r *leak.Record) func(func(*leak.Sample) bool) {
	return func(yield func(*leak.Sample) bool) {
		for i := range r.Variants {
			if !samplesOf(&r.Variants[i], yield) {
				return
			}
		}
	}
}

func samplesOf(v *leak.VariantRecord, yield func(*leak.Sample) bool) bool {
	shots := make([]*leak.Snapshot, 0, len(v.Control)+len(v.Snapshots)+1)
	for i := range v.Control {
		shots = append(shots, &v.Control[i])
	}
	for i := range v.Snapshots {
		shots = append(shots, &v.Snapshots[i])
	}
	if v.Idle != nil {
		shots = append(shots, v.Idle)
	}
	for _, shot := range shots {
		for i := range shot.Samples {
			if !yield(&shot.Samples[i]) {
				return false
			}
		}
	}
	for i := range v.Replicas {
		if !samplesOf(&v.Replicas[i], yield) {
			return false
		}
	}
	return true
}
