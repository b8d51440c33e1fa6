// Command pgx-statements runs another SQL text for every POST, on one connection with a cache of 16 statements. In pgx
// before v5.4.0, the connection keeps the description of each statement that the cache has evicted.
//
// It starts the PostgreSQL server of this machine in a temporary folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/leakrig/leakrig/subjects/serve"
)

func main() {
	dir, err := startPostgres()
	if err != nil {
		log.Fatalf("pgx-statements: %v", err)
	}
	c, err := connect(dir)
	if err != nil {
		log.Fatalf("pgx-statements: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /query", func(w http.ResponseWriter, r *http.Request) {
		if err := c.query(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	_ = os.RemoveAll(dir) // the server, which ends with this process, still writes to it
}

type client struct {
	mu      sync.Mutex
	queries int
	conn    *pgx.Conn
}

// connect waits until the server accepts connections.
func connect(dir string) (*client, error) {
	config, err := pgx.ParseConfig("host=" + dir + " user=postgres database=postgres sslmode=disable statement_cache_capacity=16")
	if err != nil {
		return nil, err
	}
	for range 300 {
		var conn *pgx.Conn
		if conn, err = pgx.ConnectConfig(context.Background(), config); err == nil {
			return &client{conn: conn}, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

// query runs a statement that was not run before.
func (c *client) query(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queries++
	var n int
	if err := c.conn.QueryRow(ctx, fmt.Sprintf("select %d", c.queries)).Scan(&n); err != nil {
		return err
	}
	if n != c.queries {
		return fmt.Errorf("got %d, want %d", n, c.queries)
	}
	return nil
}

// startPostgres starts a server that listens on a socket in the returned folder.
func startPostgres() (string, error) {
	initdb, err := program("initdb")
	if err != nil {
		return "", err
	}
	postgres, err := program("postgres")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "pgx-statements-")
	if err != nil {
		return "", err
	}
	attributes, err := notRoot(dir)
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	create := exec.Command(initdb, "--pgdata", data, "--username", "postgres", "--auth", "trust", "--no-sync")
	create.SysProcAttr, create.Dir = attributes, dir
	if output, err := create.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, output)
	}
	server := exec.Command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.SysProcAttr, server.Dir, server.Stderr = attributes, dir, os.Stderr
	return dir, server.Start()
}

// program finds a program of PostgreSQL on the PATH, or where Debian installs it.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(installed) == 0 {
		return "", errors.New("no " + name + " here: install PostgreSQL (apt-get install postgresql)")
	}
	return installed[len(installed)-1], nil
}

// notRoot returns the attributes of the server's process, which refuses to run as root, and gives it the folder.
func notRoot(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return attributes, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(dir, int(uid), int(gid))
}
