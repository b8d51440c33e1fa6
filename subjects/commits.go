package subjects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Repo is a git repository. Its working tree and index do not change.
type Repo struct {
	// Root is the top of its working tree, absolute and without links.
	Root string
}

// Commit is one commit.
type Commit struct {
	Hash, Title string
	Time        time.Time
}

// OpenRepo finds the repository that dir lies in.
func OpenRepo(ctx context.Context, dir string) (Repo, error) {
	out, err := Repo{dir}.git(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return Repo{}, leak.WithHint(fmt.Errorf("repository %s: %w", dir, err), "name a folder of a git working tree")
	}
	root, err := filepath.EvalSymlinks(strings.TrimSpace(out))
	return Repo{root}, err
}

// Resolve is the commit that a revision names.
func (r Repo) Resolve(ctx context.Context, rev string) (Commit, error) {
	out, err := r.git(ctx, nil, "log", "-1", "--format=%H%x00%cI%x00%s", "--end-of-options", rev, "--")
	if err != nil {
		return Commit{}, leak.WithHint(fmt.Errorf("%s is not a commit of %s: %w", rev, r.Root, err), "name a commit, a tag or a branch")
	}
	return parseCommit(strings.TrimSpace(out))
}

func parseCommit(line string) (Commit, error) {
	fields := strings.SplitN(line, "\x00", 3)
	if len(fields) != 3 {
		return Commit{}, fmt.Errorf("git log: %q", line)
	}
	when, err := time.Parse(time.RFC3339, fields[1])
	return Commit{fields[0], fields[2], when.UTC()}, err
}

// Between are the commits from one to another, both included, oldest first, along first parents. Either of the
// two may be the older one.
func (r Repo) Between(ctx context.Context, one, other Commit) ([]Commit, error) {
	for _, pair := range [][2]Commit{{one, other}, {other, one}} {
		if _, err := r.git(ctx, nil, "merge-base", "--is-ancestor", pair[0].Hash, pair[1].Hash); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		out, err := r.git(ctx, nil, "log", "--first-parent", "--reverse", "--format=%H%x00%cI%x00%s", pair[0].Hash+".."+pair[1].Hash, "--")
		if err != nil {
			return nil, err
		}
		all := []Commit{pair[0]}
		for line := range strings.Lines(out) {
			c, err := parseCommit(strings.TrimRight(line, "\n"))
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return all, nil
	}
	return nil, leak.WithHint(fmt.Errorf("neither of %s and %s is an ancestor of the other", one.Hash[:12], other.Hash[:12]),
		"commits are searched along one line: `git merge-base` names a common ancestor to start from")
}

// Checkout creates dir and writes the files of a commit into it.
func (r Repo) Checkout(ctx context.Context, c Commit, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	index := dir + ".index" // a private one: that of the repository belongs to its user
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := r.git(ctx, env, "read-tree", c.Hash); err != nil {
		return fmt.Errorf("check out %s: %w", c.Hash[:12], err)
	}
	if _, err := r.git(ctx, env, "checkout-index", "--all", "--force", "--prefix="+dir+string(filepath.Separator)); err != nil {
		return fmt.Errorf("check out %s: %w", c.Hash[:12], err)
	}
	return nil
}

// Inside is the path of a file or folder relative to the top of the repository.
func (r Repo) Inside(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	rel, err := filepath.Rel(r.Root, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", leak.WithHint(fmt.Errorf("%s does not lie in the repository %s", path, r.Root), "the scenario's subject.build or subject.command names what is built or started, in the repository")
	}
	return rel, nil
}

func (r Repo) git(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return "", leak.WithHint(errors.New("the git command is not on the PATH"), "install git")
		}
		return "", fmt.Errorf("git %s: %w %s", args[0], err, lastLines(said.String(), 2))
	}
	return out.String(), nil
}
