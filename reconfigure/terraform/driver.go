package terraform

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Config is what a driver works with.
type Config struct {
	// Dir is the folder of the root module.
	Dir string
	// Workspace is the shard that the driver works on; empty is Terraform's default workspace, reconfigure.DefaultShard. A workspace is made by its first apply.
	Workspace string
	// Keeper keeps the map of nodes. It may be nil for who never applies, see NodeMap.
	Keeper Keeper
	// PlanDir is where saved plans lie between preview and apply. They hold what the state holds, secrets too: it is
	// made for its owner only.
	PlanDir string
	// Binary is the path of terraform or tofu. Empty: the first one on PATH that fits, else a download.
	Binary string
	// BinDir is where a downloaded binary is kept.
	BinDir string
	// CloudsFile is the clouds.yaml to log in with. Empty: where the provider looks by itself.
	CloudsFile string
	// Parallelism is the most resources that Terraform works on at a time.
	Parallelism int
	// LockTimeout is how long to wait for a state that somebody else has locked.
	LockTimeout time.Duration
	// Port is the id of the port at which the server with an id is. Adopt asks for it where neither the state nor the
	// list of servers has it; nil: nobody knows.
	Port func(ctx context.Context, server string) (string, error)
	// Environ is the environment, as of os.Environ, that Terraform inherits but for what would make a plan depend on
	// who calls: TF_VAR_*, TF_CLI_ARGS*, TF_WORKSPACE, TF_DATA_DIR, and the provider's OS_IMAGE_ID, OS_IMAGE_NAME,
	// OS_FLAVOR_ID and OS_FLAVOR_NAME.
	Environ []string
	// Log gets each command line at level debug. It must not be nil.
	Log *slog.Logger
}

// Driver runs Terraform in one workspace of one root module. State and Shards may be called at any time, the other
// methods one at a time: two applies would wait for each other's state lock, and a saved plan is void once another one was
// applied. Drivers of different workspaces may work side by side.
type Driver struct {
	cfg Config
	env map[string]string
	// lane is for the commands of which terraform-exec checks the version first: it asks the binary once for each
	// Terraform object.
	lane *tfexec.Terraform
	// launcher runs Terraform in this driver's workspace, defaultLauncher in the default one.
	launcher, defaultLauncher string
	known                     shared // see shared
}

// Open finds the binary and initializes the module where that is needed. It may be retried: what fails here is a
// binary that is not there, or a provider that cannot be fetched.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	binary, err := findBinary(ctx, cfg.Binary, cfg.BinDir)
	if err != nil {
		return nil, err
	}
	cfg.Binary = binary
	// Terraform runs in Dir, so a relative path would mean another place to it.
	for _, path := range []*string{&cfg.Dir, &cfg.PlanDir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("terraform: %w", err)
		}
	}
	if err := os.MkdirAll(cfg.PlanDir, 0o700); err != nil {
		return nil, fmt.Errorf("terraform: %w", err)
	}
	d := &Driver{cfg: cfg, env: environment(cfg.Environ, cfg.CloudsFile)}
	if d.launcher, err = launcher(cfg.PlanDir, cfg.Binary, cfg.Workspace); err != nil {
		return nil, err
	}
	if d.defaultLauncher, err = launcher(cfg.PlanDir, cfg.Binary, reconfigure.DefaultShard); err != nil {
		return nil, err
	}
	if d.lane, err = d.terraform(d.launcher); err != nil {
		return nil, fmt.Errorf("terraform: %w", err)
	}
	return d, d.initialize(ctx)
}

func (d *Driver) nodes() NodeMap { return NodeMap{Dir: d.cfg.Dir, Keeper: d.cfg.Keeper} }

// Desired is this shard's part of the map of nodes that was last kept; empty before the first apply.
func (d *Driver) Desired(ctx context.Context) (map[string]reconfigure.Spec, error) {
	nodes, _, err := d.nodes().Read(ctx)
	return reconfigure.InShard(nodes, d.cfg.Workspace), err
}

// terraform is an object of terraform-exec's, which runs a program's commands one at a time.
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

// run gives f the Terraform of the lane.
func (d *Driver) run(f func(*tfexec.Terraform) error) error {
	d.lane.SetStdout(nil) // a call that answers in JSON leaves its writer behind
	return locked(d.lane, f)
}

// beside gives f a Terraform of its own, which may run while the lane is in use.
func (d *Driver) beside(f func(*tfexec.Terraform) error) error { return d.with(d.launcher, f) }

// with is beside with another program.
func (d *Driver) with(program string, f func(*tfexec.Terraform) error) error {
	tf, err := d.terraform(program)
	if err != nil {
		return err
	}
	return locked(tf, f)
}

// locked calls f on a thread that lives until f returns. terraform-exec has the kernel kill Terraform when the thread
// that started it ends (Pdeathsig, prctl(2)), and a goroutine's thread is anybody's: were it handed to a goroutine
// that locks it and returns, Terraform would die in the middle of an apply.
func locked(tf *tfexec.Terraform, f func(*tfexec.Terraform) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f(tf)
}

// environment is what Terraform inherits, see Config.Environ. terraform-exec sets what it knows itself; the image and
// flavor variables the provider takes in the place of an instance's own.
func environment(environ []string, cloudsFile string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	env = tfexec.CleanEnv(env)
	for _, name := range []string{"TF_DATA_DIR", "OS_IMAGE_ID", "OS_IMAGE_NAME", "OS_FLAVOR_ID", "OS_FLAVOR_NAME"} {
		delete(env, name)
	}
	if cloudsFile != "" {
		env["OS_CLIENT_CONFIG_FILE"] = cloudsFile
	}
	return env
}
