package existing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// join is what a site's image does at boot: the node becomes one of the site's, without SSH and without playbooks.
const join = `#!/bin/sh
[ "$1" = start ] && [ ! -e /etc/join/broken ] || exit 0
set -e
cat /etc/join/hosts >>/etc/hosts
base64 -d /etc/join/key >/etc/munge/munge.key
chown munge:munge /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key
usermod --uid ` + uid + ` slurm
mkdir -p /var/log/slurm /var/spool/slurmd.site
service munge restart
exec slurmd --conf-server ctl
`

// JoinByImage changes an image of the lab so that its machines join the site of a Lab.Elsewhere at boot, and breaks the
// program that does it. repair repairs the program. No machine of the image may exist during either call.
func (l *Lab) JoinByImage(t *testing.T, name string) (repair func()) {
	t.Helper()
	var hosts string
	for _, name := range []string{cluster.ControlNodeName, Backup} {
		if s, ok := l.Server(name); ok {
			hosts += fmt.Sprintf("%s %s\n", s.Addresses[0], name)
		}
	}
	err := l.runAtBoot(name, "join", join, map[string]string{
		"etc/join/hosts": hosts, "etc/join/key": mungeKey, "etc/join/broken": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(filepath.Join(l.layer(name), "etc", "join", "broken")); err != nil {
			t.Fatal(err)
		}
	}
}

// layer returns the folder of an image's own files.
func (l *Lab) layer(name string) string { return filepath.Join(l.Dir, "images", cluster.ImageID(name)) }

// atBoot is what an init script has after its first line (insserv(8)), with the name of its program.
const atBoot = `### BEGIN INIT INFO
# Provides:          %s
# Required-Start:    $network $remote_fs
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:
### END INIT INFO
`

// runAtBoot makes the machines of an image run a program at boot, with the argument start, and gives them more files.
// No machine of the image may exist.
func (l *Lab) runAtBoot(name, program, script string, files map[string]string) error {
	first, rest, _ := strings.Cut(script, "\n")
	files["etc/init.d/"+program] = first + "\n" + fmt.Sprintf(atBoot, program) + rest
	files["etc/init.d/.depend.start"] = "TARGETS = ssh " + program + "\nINTERACTIVE =\n" // startpar(8) starts no others
	err := l.addToImage(name, files)
	for _, level := range []string{"2", "3", "4", "5"} {
		link := filepath.Join(l.layer(name), "etc", "rc"+level+".d", "S99"+program)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("../init.d/"+program, link))
	}
	return err
}

// addPackages downloads packages that the base lacks, and adds them to images for apt. No machine of the images may
// exist.
func (l *Lab) addPackages(ctx context.Context, packages image.Packages, images ...string) error {
	base, err := installed()
	if err != nil {
		return err
	}
	dir := filepath.Join(l.Dir, "packages")
	if err := image.BuildArchive(ctx, dir, base, packages); err != nil {
		return err
	}
	files, err := image.Archive(dir)
	for _, name := range images {
		err = errors.Join(err, l.addToImage(name, files))
	}
	return err
}

// installed returns the base of the machines.
func installed() (string, error) {
	if onTrixie() {
		found, err := tools.FindSystemd("../../..")
		return found.Trixie, err
	}
	found, err := tools.Find("../../..")
	return found.Image, err
}

// addToImage adds files to an image of the lab. No machine of the image may exist.
func (l *Lab) addToImage(name string, files map[string]string) error {
	for file, text := range files {
		path := filepath.Join(l.layer(name), file)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
		if err != nil {
			return err
		}
	}
	return nil
}
