package terraform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Config is the configuration of a Driver.
type Config struct {
	// Dir is the folder of the root module.
	Dir string
	// Workspace is the shard of the driver; empty is Terraform's default workspace, reconfigure.DefaultShard. The first
	// apply makes the workspace.
	Workspace string
	// Keeper stores the map of nodes. It may be nil if the driver never applies, see NodeMap.
	Keeper Keeper
	// PlanDir is the folder of saved plans. They have the content of the state, secrets too, so it is readable by its
	// owner only.
	PlanDir string
	// Binary is the path of terraform or tofu. Empty: the first suitable one on PATH, else a download.
	Binary string
	// Found is the answer of Binary of another driver of the cluster: it is used without being looked for or checked
	// again, each of which would start Terraform. Empty: there is none.
	Found string
	// BinDir is the folder of a downloaded binary.
	BinDir string
	// Module describes the root module.
	Module reconfigure.RootModule
	// Variables are set in the environment of Terraform.
	Variables map[string]string
	// Parallelism is the maximum number of resources that Terraform changes at a time.
	Parallelism int
	// LockTimeout is how long to wait for the lock of the state.
	LockTimeout time.Duration
	// Port returns the id of a server's port. Adopt calls it if neither the state nor the list of servers has the port.
	// It may be nil: the port is unknown then.
	Port func(ctx context.Context, server string) (string, error)
	// ReadOnly has Open neither download nor initialize anything nor make a folder. Without an earlier call that did so,
	// the driver reads local states only; what needs Terraform is ErrNotInitialized.
	ReadOnly bool
	// Environ is the environment for Terraform, in the form of os.Environ. Variables that would make a plan depend on
	// the caller are removed: TF_VAR_*, TF_CLI_ARGS*, TF_WORKSPACE, TF_DATA_DIR, and those that Module.Unset names.
	Environ []string
	// Log gets each command line at level debug. It must not be nil.
	Log *slog.Logger
}

// Driver runs Terraform in one workspace of one root module. State, Instances, Addresses and Shards may be called at
// any time, the other methods one at a time: a saved plan becomes invalid when another one is applied. Drivers of
// different workspaces may be used at the same time.
type Driver struct {
	cfg Config
	env map[string]string
	// lane runs the commands for which terraform-exec checks the version first, which it does once for each object.
	lane *tfexec.Terraform
	// launcher runs Terraform in this driver's workspace, defaultLauncher in the default one.
	launcher, defaultLauncher string
	known                     shared // see shared
	// writes counts the beginnings and ends of this driver's changes of the state: it is odd during a change.
	writes atomic.Int64
	pulled atomic.Pointer[pulled] // see pulledAddresses
	tofu   bool                   // the last plan was OpenTofu's
	// unready is the error of each call that needs Terraform; nil if Terraform may run.
	unready error
}

// ErrNotInitialized is the error of a read-only driver in a folder where Terraform has not run.
var ErrNotInitialized = errors.New("terraform has not run in this cluster directory yet; the first request, such as " +
	"`reconfigure deploy`, installs and initializes it")

// Open finds the binary and initializes the module if needed. It fails if there is no binary or a provider cannot be
// downloaded. It may be retried.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	var err error
	// Terraform runs in Dir, so relative paths would be relative to that.
	for _, path := range []*string{&cfg.Dir, &cfg.PlanDir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("terraform: %w", err)
		}
	}
	if cfg.Found != "" {
		cfg.Binary = cfg.Found
	}
	if cfg.ReadOnly {
		if cfg.Binary, err = Installed(ctx, cfg.Binary, cfg.BinDir); err != nil {
			return nil, err
		}
		if cfg.Binary == "" || !isDir(cfg.PlanDir) || !isDir(filepath.Join(cfg.Dir, ".terraform")) {
			if cfg.Binary != "" && cfg.Found == "" {
				err = checkBinary(ctx, cfg.Binary)
			}
			return &Driver{cfg: cfg, unready: ErrNotInitialized}, err
		}
	} else {
		if cfg.Binary, err = findBinary(ctx, cfg.Binary, cfg.BinDir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(cfg.PlanDir, 0o700); err != nil {
			return nil, fmt.Errorf("terraform: %w", err)
		}
	}
	d := &Driver{cfg: cfg, env: environment(cfg.Environ, cfg.Module.Unset, cfg.Variables)}
	if d.launcher, err = launcher(cfg.PlanDir, cfg.Binary, cfg.Workspace, versionFile(cfg.Dir)); err != nil {
		return nil, err
	}
	d.defaultLauncher, err = launcher(cfg.PlanDir, cfg.Binary, reconfigure.DefaultShard, versionFile(cfg.Dir))
	if err != nil {
		return nil, err
	}
	if d.lane, err = d.terraform(d.launcher); err != nil {
		return nil, fmt.Errorf("terraform: %w", err)
	}
	if cfg.ReadOnly {
		return d, nil
	}
	return d, d.initialize(ctx)
}

// Binary returns the path of the driver's Terraform; empty if a read-only driver has found none.
func (d *Driver) Binary() string { return d.cfg.Binary }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (d *Driver) nodes() NodeMap { return NodeMap{Dir: d.cfg.Dir, Keeper: d.cfg.Keeper} }

// Desired returns this shard's part of the stored map of nodes; empty before the first apply.
func (d *Driver) Desired(ctx context.Context) (map[string]reconfigure.Spec, error) {
	nodes, _, err := d.nodes().Read(ctx)
	return reconfigure.InShard(nodes, d.cfg.Workspace), err
}

// terraform returns a new object of terraform-exec, which runs the commands of a program one at a time.
func (d *Driver) terraform(program string) (*tfexec.Terraform, error) {
	tf, err := tfexec.NewTerraform(d.cfg.Dir, program)
	if err != nil {
		return nil, err
	}
	if err := tf.SetEnv(d.env); err != nil {
		return nil, err
	}
	tf.SetLogger(slog.NewLogLogger(d.cfg.Log.Handler(), slog.LevelDebug))
	return tf, nil
}

// run calls f with the lane.
func (d *Driver) run(f func(*tfexec.Terraform) error) error {
	if d.unready != nil {
		return d.unready
	}
	d.lane.SetStdout(nil) // removes the writer of an earlier call with JSON output
	return locked(d.lane, f)
}

// beside calls f with a new object, which may be used at the same time as the lane.
func (d *Driver) beside(f func(*tfexec.Terraform) error) error { return d.with(d.launcher, f) }

// with is beside for another program.
func (d *Driver) with(program string, f func(*tfexec.Terraform) error) error {
	if d.unready != nil {
		return d.unready
	}
	tf, err := d.terraform(program)
	if err != nil {
		return err
	}
	return locked(tf, f)
}

// locked calls f on a thread that exists until f returns. With terraform-exec the kernel kills Terraform when the
// thread that started it ends (Pdeathsig, prctl(2)). Another goroutine could get an unlocked thread, lock it and
// return, which ends the thread, and Terraform in the middle of an apply.
func locked(tf *tfexec.Terraform, f func(*tfexec.Terraform) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f(tf)
}

// quiet are the levels of the logs of terraform-plugin-log. A provider writes them at level trace by default, even if
// Terraform, which parses each line, then drops them: a tenth of the CPU time of both.
var quiet = map[string]string{"TF_LOG_SDK": "OFF", "TF_LOG_SDK_PROTO": "OFF", "TF_LOG_SDK_HELPER_SCHEMA": "OFF"}

// environment returns Terraform's environment, see Config.Environ. terraform-exec sets some variables itself.
func environment(environ, unset []string, set map[string]string) map[string]string {
	env := map[string]string{noCheckpoint: "1"}
	maps.Copy(env, quiet)
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	env = tfexec.CleanEnv(env)
	for _, name := range append([]string{"TF_DATA_DIR"}, unset...) {
		delete(env, name)
	}
	maps.Copy(env, set)
	return env
}
