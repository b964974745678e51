package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// Check checks the site, with all sources. It changes nothing. The report names sources that do not answer within 20
// s. The error is that of ctx, or of the journal.
func Check(ctx context.Context, a *site.Adapters) (check.Report, error) {
	g := gatherer{facts: localFacts(a.Site)}
	var wait sync.WaitGroup
	sources := []func(context.Context, *site.Adapters, *gatherer){
		askHost, askJournal, askCloud, askTerraform, askAnsible,
	}
	for _, ask := range sources {
		wait.Go(func() { ask(ctx, a, &g) })
	}
	// Terraform's state has Slurm's address.
	seen, err := a.Look(ctx)
	if err == nil {
		askSlurm(ctx, a, &g, seen)
	}
	wait.Wait()
	return check.Run(g.facts), err
}

// CheckHere checks for unsafe files on this host, without the network and without other programs. It takes
// milliseconds. It skips missing files: a command that needs one fails with its name.
func CheckHere(s site.Site) check.Report {
	facts := localFacts(s)
	facts.Files = slices.DeleteFunc(facts.Files, func(f check.File) bool { return f.Missing })
	return check.Run(facts)
}

// gatherer collects facts from several goroutines.
type gatherer struct {
	lock  sync.Mutex
	facts check.Facts
}

// ask calls a source, and records its answer, or why it did not answer.
func (g *gatherer) ask(ctx context.Context, source string, call func(context.Context) (func(*check.Facts), error)) {
	ctx, cancel := context.WithTimeoutCause(ctx, site.AnswerWithin, fmt.Errorf("no answer within %s", site.AnswerWithin))
	defer cancel()
	note, err := call(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	g.lock.Lock()
	defer g.lock.Unlock()
	if err != nil {
		g.facts.Unreachable = append(g.facts.Unreachable, check.Unreachable{Source: source, Reason: err.Error()})
		return
	}
	note(&g.facts)
}

// localFacts returns the facts that can be read on this host.
func localFacts(s site.Site) check.Facts {
	facts := check.Facts{Cluster: s.Cluster, Provider: s.Provider, UID: os.Getuid()}
	unknown := func(source string, err error) {
		facts.Unreachable = append(facts.Unreachable, check.Unreachable{Source: source, Reason: err.Error()})
	}
	if variables, err := readVariables(s); err != nil {
		unknown("the playbooks' variables", err)
	} else {
		facts.Exports, facts.GresConf = variables.Exports, &variables.GresConf
	}
	if _, err := sitefiles.Read(s.Dir); err != nil {
		facts.SiteFiles = err.Error()
	}
	keys, err := s.KeyFile()
	if err != nil {
		unknown("the authorized keys", err)
	}
	command, err := s.Command()
	if err != nil {
		unknown("this program", err)
	}
	files := map[string]check.Role{
		s.Dir:                                check.Checkout,
		command:                              check.Executable,
		s.DeclarationFile():                  check.Declaration,
		s.Cluster.PrivateKeyFile:             check.PrivateKey,
		s.StateFile():                        check.StateDirectory,
		s.StateFile(journal.FileName):        check.JournalFile,
		s.StateFile("ansible", "given.json"): check.GivenFile,
		s.Provider.Credentials(s.Dir):        check.Credentials,
		filepath.Dir(keys):                   check.KeyFile,
		keys:                                 check.KeyFile,
	}
	if home, ok := strings.CutSuffix(keys, "/.ssh/authorized_keys"); ok {
		files[home] = check.Home
	}
	delete(files, "") // files with an unknown path
	delete(files, ".")
	for path, role := range files {
		if file, err := fileOf(path, role); err != nil {
			unknown(path, err)
		} else {
			facts.Files = append(facts.Files, file)
		}
	}
	slices.SortFunc(facts.Files, func(a, b check.File) int { return strings.Compare(a.Path, b.Path) })
	if keys != "" {
		if facts.AuthorizedKeys, err = readKeys(keys); err != nil {
			unknown(keys, err)
		}
	}
	if facts.FileSystems, err = fileSystems(s); err != nil {
		unknown("the file systems", err)
	}
	if text, err := os.ReadFile(s.StateFile("known_hosts")); err == nil || errors.Is(err, fs.ErrNotExist) {
		facts.HostKeys = addressesIn(text)
	}
	return facts
}

// variables has variables of the playbooks that only the checks need.
type variables struct {
	Exports  string `yaml:"nfs_export_options"`
	GresConf string `yaml:"slurm_gres_conf"`
}

// readVariables reads them in Ansible's order: the role's defaults first.
func readVariables(s site.Site) (v variables, err error) {
	const defaults = "ansible/roles/nfs/defaults/main.yml"
	text, err := s.ProgramFile(defaults)
	if err == nil {
		err = yaml.Unmarshal(text, &v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v, fmt.Errorf("%s: %w", defaults, err)
	}
	for _, file := range []string{
		s.DeclarationFile(), s.File("group_vars", "cluster.yml"), s.File("ansible", "group_vars", "cluster.yml"),
	} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = yaml.Unmarshal(text, &v)
		}
		if err != nil {
			return v, fmt.Errorf("%s: %w", file, err)
		}
	}
	return v, nil
}

func fileOf(path string, role check.Role) (check.File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return check.File{Path: path, Role: role, Missing: true}, nil
	}
	if err != nil {
		return check.File{}, err
	}
	file := check.File{Path: path, Role: role, Mode: info.Mode()}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		file.UID = int(owner.Uid)
	}
	return file, nil
}

func readKeys(path string) (*check.AuthorizedKeys, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &check.AuthorizedKeys{Path: path, Lines: strings.Split(string(text), "\n")}, nil
}

// fileSystems returns the file systems to which the tool writes, each once.
func fileSystems(s site.Site) (all []check.FileSystem, err error) {
	seen := map[uint64]bool{}
	for _, dir := range []string{s.StateFile(), s.Dir, os.TempDir()} {
		for !exists(dir) && dir != "/" { // before the first request
			dir = filepath.Dir(dir)
		}
		var stat unix.Stat_t
		var of unix.Statfs_t
		if err := errors.Join(unix.Stat(dir, &stat), unix.Statfs(dir, &of)); err != nil {
			return all, fmt.Errorf("%s: %w", dir, err)
		}
		if !seen[stat.Dev] {
			seen[stat.Dev] = true
			_, network := journal.NetworkFileSystem(int64(of.Type))
			all = append(all, check.FileSystem{
				Path: dir, Free: of.Bavail * uint64(of.Bsize), Files: of.Ffree, Network: network,
				Journal: len(all) == 0 && s.Cluster.Settings.Journal == "",
			})
		}
	}
	return all, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// addressesIn returns the addresses in a known_hosts file (sshd(8)).
func addressesIn(text []byte) map[string]bool {
	all := map[string]bool{}
	for line := range bytes.Lines(text) {
		hosts, _, _ := strings.Cut(string(line), " ")
		for host := range strings.SplitSeq(hosts, ",") {
			all[host] = true
		}
	}
	return all
}

// measured is the number of the newest requests whose times are used.
const measured = 300

// askHost compares the declared control host with this host.
func askHost(ctx context.Context, a *site.Adapters, g *gatherer) {
	g.ask(ctx, "this host", func(ctx context.Context) (func(*check.Facts), error) {
		host, err := controlHostOf(ctx, a.Site)
		return func(f *check.Facts) { f.ControlHost = &host }, err
	})
}

func controlHostOf(ctx context.Context, s site.Site) (host check.ControlHost, err error) {
	declared := s.Cluster.Settings
	owner, err := user.Lookup(declared.ControlUser)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		host.NoUser = true
	} else if err != nil {
		return host, err
	} else if host.UID, err = strconv.Atoi(owner.Uid); err != nil {
		return host, err
	}
	here, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return host, err
	}
	if there, err := filepath.EvalSymlinks(declared.Directory); err != nil || there != here {
		host.Directory = s.Dir
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return host, err
	}
	host.Elsewhere = true
	for _, address := range declared.ControlHosts {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address)
		if err != nil {
			return host, err
		}
		for _, ip := range found {
			host.Elsewhere = host.Elsewhere && !slices.ContainsFunc(own, func(a net.Addr) bool {
				mine, ok := a.(*net.IPNet)
				return ok && mine.IP.Equal(ip.AsSlice())
			})
		}
	}
	return host, nil
}

// askJournal reads the durations of phases.
func askJournal(ctx context.Context, a *site.Adapters, g *gatherer) {
	if a.Journal == nil {
		return
	}
	g.ask(ctx, "the journal", func(ctx context.Context) (func(*check.Facts), error) {
		events, err := events(ctx, a)
		times := check.Measure(events)
		return func(f *check.Facts) { f.Times = &times }, err
	})
}

// events returns the events of the newest requests; none without a journal.
func events(ctx context.Context, a *site.Adapters) (map[reconfigure.RequestID][]reconfigure.Event, error) {
	if a.Journal == nil {
		return nil, nil
	}
	requests, err := a.Journal.Requests(ctx, measured)
	if err != nil {
		return nil, err
	}
	var ids []reconfigure.RequestID
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	return a.Journal.EventsOf(ctx, ids...)
}

// askCloud asks for facts about the project. The ids of the declared names are part of the snapshot.
func askCloud(ctx context.Context, a *site.Adapters, g *gatherer) {
	var cloud site.Cloud
	g.ask(ctx, "the cloud", func(ctx context.Context) (func(*check.Facts), error) {
		var err error
		cloud, err = a.Cloud(ctx)
		if err != nil && ctx.Err() == nil && !reconfigure.ClassOf(err).Passing() {
			return func(f *check.Facts) { f.Login = err.Error() }, nil
		}
		return func(*check.Facts) {}, err
	})
	if cloud == nil {
		return
	}
	g.ask(ctx, "the cloud's quota", func(ctx context.Context) (func(*check.Facts), error) {
		room, err := cloud.Room(ctx)
		return func(f *check.Facts) { f.Room = &room }, err
	})
	g.ask(ctx, "the cloud's clock", func(ctx context.Context) (func(*check.Facts), error) {
		asking := time.Now()
		clock, err := cloud.Clock(ctx)
		ahead := asked{asking, time.Now()}.ahead(clock)
		return func(f *check.Facts) {
			if !clock.IsZero() {
				setClock(f, "the cloud", ahead)
			}
		}, err
	})
	g.ask(ctx, "the servers of the project", func(ctx context.Context) (func(*check.Facts), error) {
		all, err := cloud.ProjectServers(ctx)
		return func(f *check.Facts) {
			f.Servers = []check.Server{}
			for _, s := range all {
				f.Servers = append(f.Servers, check.Server(s))
			}
		}, err
	})
}

func setClock(f *check.Facts, where string, ahead time.Duration) {
	if f.Clocks == nil {
		f.Clocks = map[string]time.Duration{}
	}
	f.Clocks[where] = ahead
}

func setVersion(f *check.Facts, program check.Program, version string) {
	if f.Versions == nil {
		f.Versions = map[check.Program]string{}
	}
	f.Versions[program] = version
}

// askSlurm asks slurmctld, and records further facts of the snapshot.
func askSlurm(ctx context.Context, a *site.Adapters, g *gatherer, seen snapshot.Snapshot) {
	control, deployed := seen.Instances[a.Site.Cluster.Control.Name]
	measured, err := ansible.Measured(a.Site.StateFile())
	g.lock.Lock()
	g.facts.Instances, g.facts.Sources, g.facts.Measured = seen.Instances, seen.Sources, measured
	if err != nil {
		g.facts.Unreachable = append(g.facts.Unreachable,
			check.Unreachable{Source: "the hardware of the nodes", Reason: err.Error()})
	}
	for _, u := range seen.Unreachable() {
		if u.Source != snapshot.Slurm || deployed {
			g.facts.Unreachable = append(
				g.facts.Unreachable,
				check.Unreachable{Source: u.Source.Words(), Reason: u.Reason},
			)
		}
	}
	g.lock.Unlock()
	if !deployed || !seen.Answers(snapshot.Slurm) {
		return
	}
	g.ask(ctx, "Slurm's configuration", func(ctx context.Context) (func(*check.Facts), error) {
		asking := time.Now()
		settings, err := a.Scheduler(control).Settings(ctx)
		ahead := asked{asking, time.Now()}.slurmAhead(settings.Clock)
		return func(f *check.Facts) {
			f.Slurm = settings.Values
			setVersion(f, check.Slurm, settings.Values["SLURM_VERSION"])
			if !settings.Clock.IsZero() {
				setClock(f, "the control node", ahead)
			}
		}, err
	})
}

// asked is the time span in which a clock was asked.
type asked struct{ from, to time.Time }

// ahead returns how far a clock in whole seconds is ahead of this host's: zero if the answer may be from any moment
// of the span.
func (a asked) ahead(clock time.Time) time.Duration {
	switch {
	case clock.Before(a.from.Add(-time.Second)):
		return clock.Sub(a.from)
	case clock.After(a.to):
		return clock.Sub(a.to)
	}
	return 0
}

// slurmAhead is ahead for slurmctld's clock. Its time zone is unknown. Time zones differ by multiples of 15 minutes,
// so the remainder is the clock's error.
func (a asked) slurmAhead(clock time.Time) time.Duration {
	const zone = 15 * time.Minute
	return a.ahead(clock.Add(-clock.Sub(a.to).Round(zone)))
}

// askTerraform asks for the versions of Terraform and of the provider. It downloads nothing.
func askTerraform(ctx context.Context, a *site.Adapters, g *gatherer) {
	if a.Site.Provider.Existing {
		return // there is no Terraform
	}
	binary, err := terraform.Installed(ctx, a.Site.Cluster.Settings.Terraform, a.Site.StateFile("bin"))
	if err != nil || binary == "" {
		return // it is downloaded when it is first needed
	}
	g.ask(ctx, "Terraform's version", func(ctx context.Context) (func(*check.Facts), error) {
		dir := a.Site.RootModule()
		if !exists(dir) { // a new site folder
			dir = a.Site.Dir
		}
		out, err := output(ctx, a, dir, binary, "version", "-json")
		if err != nil {
			return nil, err
		}
		var answer struct {
			Terraform string            `json:"terraform_version"`
			Providers map[string]string `json:"provider_selections"`
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			return nil, fmt.Errorf("%s version -json: %w", binary, err)
		}
		return func(f *check.Facts) {
			setVersion(f, check.Terraform, answer.Terraform)
			for name, version := range answer.Providers {
				if strings.HasSuffix(name, "/"+a.Site.Provider.Plugin.Source) {
					setVersion(f, check.Plugin, version)
				}
			}
		}, nil
	})
}

// ansibleVersion matches the first line of `ansible-playbook --version`, which has no JSON form.
var ansibleVersion = regexp.MustCompile(`^ansible-playbook \[core ([0-9][^\]]*)\]`)

func askAnsible(ctx context.Context, a *site.Adapters, g *gatherer) {
	g.ask(ctx, "Ansible's version", func(ctx context.Context) (func(*check.Facts), error) {
		out, err := output(ctx, a, a.Site.Dir, "ansible-playbook", "--version")
		if err != nil {
			return nil, err
		}
		found := ansibleVersion.FindSubmatch(out)
		if found == nil {
			return nil, errors.New("ansible-playbook --version has no version of ansible-core")
		}
		return func(f *check.Facts) { setVersion(f, check.Ansible, string(found[1])) }, nil
	})
}

// output returns the output of a program.
func output(ctx context.Context, a *site.Adapters, dir, program string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := process.Run(ctx, process.Cmd{
		Path: program, Args: args, Dir: dir, Env: site.Environment(os.Environ()), Stdout: &out,
	})
	return out.Bytes(), err
}
