package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// The adapters fit the seams of the engine and the batch by shape; here is where that is checked.
var (
	_ engine.Provisioner  = (*terraform.Driver)(nil)
	_ engine.Cloud        = (*openstack.Client)(nil)
	_ engine.Sweeper      = (*openstack.Client)(nil)
	_ engine.Surveyor     = (*openstack.Client)(nil)
	_ engine.Greeter      = greeter{}
	_ engine.Configurer   = (*ansible.Runner)(nil)
	_ engine.Scheduler    = (*slurm.Client)(nil)
	_ engine.Commenter    = (*slurm.Client)(nil)
	_ engine.Recorder     = (*journal.Journal)(nil)
	_ engine.HealthKeeper = (*journal.Journal)(nil)
	_ terraform.Keeper    = (*journal.Journal)(nil)
	_ ssh.Keeper          = (*journal.Journal)(nil)
	_ batch.Log           = (*journal.Journal)(nil)
	_ batch.Engine        = (*engine.Engine)(nil)
)

// poll is the pause between two looks at what is waited for: each asks the cloud and Slurm for all that they have.
const poll = 3 * time.Second

// record is where it is written down what is done, and how node groups fare.
type record interface {
	engine.Recorder
	engine.HealthKeeper
}

// engine ties the adapters together. The journal may be nil where nothing is to be carried out, and what the engine has in common with those of other batches where
// there are none.
func (s site) engine(ctx context.Context, log *journal.Journal, record record, logger *slog.Logger, common *engine.Common) (*engine.Engine, error) {
	driver, err := s.terraform(ctx, log, logger)
	if err != nil {
		return nil, err
	}
	cloud, err := s.cloud(ctx)
	if err != nil {
		return nil, err
	}
	known := s.knownHosts(log)
	if err := known.Refresh(ctx); err != nil {
		return nil, err
	}
	return engine.New(s.cluster, engine.Deps{
		Provisioner: driver,
		Cloud:       cloud,
		Sweeper:     cloud,
		Surveyor:    cloud,
		Greeter: greeter{
			ssh.NewWaiter(ssh.Config{Known: known, Policy: s.cluster.Settings.HostKeys, Console: cloud.Console}),
			s.cluster.Settings.BootTimeout,
		},
		Configurer: s.playbooks(),
		Recorder:   log,
		Health:     log,
		Scheduler:  func(control reconfigure.Instance) engine.Scheduler { return s.scheduler(control) },
		Commenter:  func(control reconfigure.Instance) engine.Commenter { return s.scheduler(control) },
		Poll:       poll,
		Common:     common,
	}), nil
}

func (s site) terraform(ctx context.Context, log *journal.Journal, logger *slog.Logger) (*terraform.Driver, error) {
	return terraform.Open(ctx, terraform.Config{
		Dir:         s.rootModule(),
		Keeper:      s.nodeMap(log).Keeper,
		PlanDir:     s.state("plans"),
		CloudsFile:  s.cloudsFile(),
		Binary:      s.cluster.Settings.Terraform,
		BinDir:      s.state("bin"),
		Parallelism: s.cluster.Settings.Parallelism,
		LockTimeout: s.cluster.Settings.LockTimeout,
		Environ:     environment(os.Environ()),
		Log:         logger,
	})
}

// nodeMap is the map of nodes, for those who take no Terraform.
func (s site) nodeMap(log *journal.Journal) terraform.NodeMap {
	m := terraform.NodeMap{Dir: s.rootModule()}
	if log != nil {
		m.Keeper = log
	}
	return m
}

// adopt takes over what the files of this host have and no journal ever had.
func (s site) adopt(ctx context.Context, log *journal.Journal) error {
	if err := s.nodeMap(log).Adopt(ctx); err != nil {
		return err
	}
	return s.knownHosts(log).Adopt(ctx)
}

func (s site) rootModule() string { return s.file("terraform", "openstack") }

// playbooks writes what Ansible itself prints to a log of its own.
func (s site) playbooks() *ansible.Runner {
	return ansible.New(ansible.Config{Dir: s.dir, Env: environment(os.Environ()), Log: appender{s, "ansible.log"}})
}

func (s site) cloud(ctx context.Context) (*openstack.Client, error) {
	return openstack.New(ctx, openstack.Config{Cloud: s.cluster.Cloud, CloudsFile: s.cloudsFile(), Cluster: s.cluster.Name})
}

func (s site) knownHosts(log *journal.Journal) ssh.KnownHosts {
	k := ssh.KnownHosts{Path: s.state("known_hosts")}
	if log != nil {
		k.Keeper = log
	}
	return k
}

// scheduler reaches Slurm's commands on the control node.
func (s site) scheduler(control reconfigure.Instance) *slurm.Client {
	return slurm.New(slurm.Config{
		SSH:    s.knownHosts(nil).Command(s.cluster.LoginUser, control.Address, s.cluster.PrivateKeyFile),
		Prefix: []string{"sudo", "-n"},
		Run:    runHere,
	})
}

// runHere runs a program with what is left of this process's own environment.
func runHere(ctx context.Context, c process.Cmd) error {
	c.Env = environment(os.Environ())
	return process.Run(ctx, c)
}
