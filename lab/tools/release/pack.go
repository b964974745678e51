package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"github.com/klauspost/compress/gzip"
)

const (
	homepage   = "https://github.com/eiffel-hpc/eiffel"
	maintainer = "eiffel <eiffel@users.noreply.github.com>"

	description = `elastic, reimageable nodes for Slurm clusters on clouds
 reconfigure makes the nodes of a Slurm cluster when jobs wait for them, removes
 them when they are idle, and reimages them: on OpenStack, libvirt, vSphere or
 machines that exist. It drives Terraform and Ansible, and tells Slurm the
 result for each node.`
)

// debianVersion returns a version as dpkg orders it: 0.3.0~rc1 is before 0.3.0.
func debianVersion(version string) string { return strings.Replace(version, "-", "~", 1) }

// archive writes the files to a compressed archive, below a folder named after it.
func (r release) archive(to string, list []file) error {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	top := strings.TrimSuffix(filepath.Base(to), ".tar.gz")
	for _, f := range list {
		err := w.WriteHeader(&tar.Header{
			Name: path.Join(top, f.path), Size: int64(len(f.content)), Mode: int64(f.mode), ModTime: r.time,
			Uname: "root", Gname: "root",
		})
		if err == nil {
			_, err = w.Write(f.content)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), os.WriteFile(to, compress(out.Bytes(), gzip.DefaultCompression), 0o644))
}

// pack writes the packages for Debian and for RPM to dir. It writes temporary files below work.
func (r release) pack(work, dir, arch string, list []file) error {
	stage := filepath.Join(work, "stage-"+arch)
	var contents files.Contents
	for _, f := range list {
		source := filepath.Join(stage, f.path)
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(source, f.content, f.mode); err != nil {
			return err
		}
		contents = append(contents, &files.Content{
			Source: source, Destination: f.path, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.time},
		})
	}
	contents = append(contents, &files.Content{
		Destination: "/etc/eiffel", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.time},
	})
	if err := os.CopyFS(stage, scripts); err != nil {
		return err
	}
	script := func(name string) string { return filepath.Join(stage, "package", name) }
	const compression = "gzip:6" // by default 9, which takes twice as long
	for format, special := range map[string]nfpm.Info{
		"deb": {
			Overridables: nfpm.Overridables{
				// The gate is called by SSH; polkit lets calls start the worker's service.
				Depends:    []string{"adduser", "ansible-core (>= 2.14)", "openssh-client", "openssh-server"},
				Recommends: []string{"ca-certificates", "polkitd"},
				Suggests:   []string{"git"},
				Scripts: nfpm.Scripts{
					PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm"),
				},
				Deb: nfpm.Deb{Compression: compression},
			},
			Section: "admin",
		},
		"rpm": {
			Overridables: nfpm.Overridables{
				Depends:    []string{"ansible-core >= 2.14", "openssh-clients", "openssh-server", "shadow-utils"},
				Recommends: []string{"ca-certificates", "polkit"},
				Suggests:   []string{"git"},
				Scripts: nfpm.Scripts{
					PreInstall: script("rpm-pre"), PostInstall: script("rpm-post"), PreRemove: script("rpm-preun"),
				},
				RPM: nfpm.RPM{
					BuildHost: "localhost", Summary: strings.SplitN(description, "\n", 2)[0],
					Compression: compression,
				},
			},
			License: "Apache-2.0", Release: "1",
		},
	} {
		info := special
		info.Name, info.Arch, info.Platform, info.Version = "eiffel", arch, "linux", r.version
		info.Maintainer, info.Description, info.Homepage = maintainer, description, homepage
		info.MTime, info.DisableGlobbing, info.Contents = r.time, true, contents
		with := nfpm.WithDefaults(&info)
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(dir, packager.ConventionalFileName(with)))
		if err != nil {
			return err
		}
		if err := errors.Join(packager.Package(with, out), out.Close()); err != nil {
			return err
		}
	}
	return nil
}
