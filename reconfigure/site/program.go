package site

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/assets"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// A cluster directory is a checkout, which has the program's files itself, or a site folder, which has none: their
// files are in the binary.

// Checkout reports whether the cluster directory is a checkout: it has the playbooks or Slurm's scripts.
func (s Site) Checkout() bool {
	return exists(s.File("ansible", "site.yml")) || exists(s.File("slurmscripts"))
}

// programs is the folder of the unpacked versions.
func (s Site) programs() string { return s.StateFile("program") }

// ProgramFile returns the text of one of the program's files, by its path in the repository. It writes nothing.
func (s Site) ProgramFile(path string) ([]byte, error) {
	if s.Checkout() {
		return os.ReadFile(s.File(filepath.FromSlash(path)))
	}
	text, found := assets.Files()[path]
	if !found {
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}
	return []byte(text), nil
}

// rootModule returns the folder in which Terraform runs for a site folder.
func (s Site) rootModule() assets.Module {
	m := assets.Module{Dir: s.RootModule(), Name: s.Provider.Name, Own: s.File("terraform"),
		Files: map[string]string{}, Links: map[string]string{}}
	if name := config.Name(s.Dir); name != config.File {
		m.Files["site.auto.tfvars.json"] = `{"cluster_file": "../../` + name + `"}` + "\n"
	}
	if exists(s.File("clouds.yaml")) { // for Terraform by hand
		m.Links["clouds.yaml"] = "../../clouds.yaml"
	}
	return m
}

// PutRootModule writes the root module's files for a site folder; else it does nothing. Only the holder of the lease
// may call it. It may be called before each plan, and retried.
func (s Site) PutRootModule(ctx context.Context) error {
	if s.Checkout() || s.Provider.Existing {
		return nil
	}
	return s.rootModule().Put(ctx)
}

// ErrOutdated is the error of a call that only reads and needs files of the program that are not in the site folder.
var ErrOutdated = errors.New("the files of this version of reconfigure are not in the cluster directory yet; the " +
	"next request, such as `reconfigure deploy`, puts them there")

// RootModuleUpToDate returns ErrOutdated if Terraform has run with another version's root module, or with other files
// of the site.
func (s Site) RootModuleUpToDate() error {
	if s.Checkout() || s.Provider.Existing || !exists(filepath.Join(s.RootModule(), ".terraform")) {
		return nil
	}
	differs, err := s.rootModule().Differs()
	if err == nil && differs {
		err = ErrOutdated
	}
	return err
}

// Command returns the path of the program that Slurm's keys may run on a control host: bin/reconfigure in the cluster
// directory; for a site folder without that, the running program.
func (s Site) Command() (string, error) {
	path := s.File("bin", "reconfigure")
	if s.Checkout() || exists(path) {
		return path, nil
	}
	return os.Executable()
}

// playbooks returns a Runner that writes Ansible's output to a separate log. For a site folder it unpacks the
// playbooks; adapters that only read return ErrOutdated instead.
func (a *Adapters) playbooks(ctx context.Context) (*ansible.Runner, error) {
	s := a.Site
	c := ansible.Config{Dir: s.Dir, Env: Environment(os.Environ()), Log: appender{s, "ansible.log"}}
	if s.Checkout() {
		return ansible.New(c), nil
	}
	var err error
	if c.Command, err = s.Command(); err != nil {
		return nil, err
	}
	if a.reads {
		found := false
		c.Program, found, err = assets.Find(s.programs())
		if err == nil && !found {
			err = ErrOutdated
		}
		return ansible.New(c), err
	}
	unpacked, err := assets.Unpack(ctx, s.programs())
	if unpacked.Aside != "" {
		a.logger.WarnContext(ctx, "the program's files were changed: they were moved aside, and unpacked anew; changes of "+
			"your own belong into ansible/ of the cluster directory", "change", unpacked.Change, "moved", unpacked.Aside)
	}
	c.Program = unpacked.Dir
	return ansible.New(c), err
}

// OwnTerraform returns the names of the administrator's files of Terraform in the root module of a checkout.
func (s Site) OwnTerraform() (own []string, err error) {
	if s.Provider.Existing {
		return nil, nil
	}
	found, err := os.ReadDir(s.RootModule())
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		_, ours := assets.Files()["terraform/"+s.Provider.Name+"/"+f.Name()]
		if !ours && f.Name() != assets.Unready && f.Type().IsRegular() && assets.IsTerraforms(f.Name()) {
			own = append(own, f.Name())
		}
	}
	return own, nil
}

// OwnRoles returns the administrator's roles of Ansible in a checkout: those that the program does not have.
func (s Site) OwnRoles() (own []string, err error) {
	found, err := os.ReadDir(s.File("ansible", "roles"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	ours := map[string]bool{}
	for path := range assets.Files() {
		if rest, ok := strings.CutPrefix(path, "ansible/roles/"); ok {
			role, _, _ := strings.Cut(rest, "/")
			ours[role] = true
		}
	}
	for _, f := range found {
		if f.IsDir() && !ours[f.Name()] {
			own = append(own, f.Name())
		}
	}
	return own, err
}

// MovedTo returns the Site in a folder with the same declaration and the same journal.
func (s Site) MovedTo(dir string) Site {
	s.Dir = dir
	return s
}

// TakeRootModule makes the root module of a checkout, moved to this site folder, that of a site folder. Own are the
// names of the administrator's files in it, which are in the folder above already. Only the holder of the lease may
// call it. It may be repeated.
func (s Site) TakeRootModule(ctx context.Context, own []string) error {
	if s.Provider.Existing {
		return nil
	}
	m := s.rootModule()
	if err := m.Take(own); err != nil {
		return err
	}
	return m.Put(ctx)
}
