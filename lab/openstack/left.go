package openstack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// Left returns an error that lists all remains of a cloud on this computer: processes, open ports, files. A cloud of
// another process counts too.
func Left() error {
	left, err := procs.Find(procs.Environment(func(entry string) bool {
		return strings.HasPrefix(entry, keeperVariable+"=")
	}))
	errs := []error{err}
	for _, p := range left {
		errs = append(errs, fmt.Errorf("a process is left: %s", p))
	}
	for port := firstPort; port <= lastPort; port++ {
		if answers(port) {
			errs = append(errs, fmt.Errorf("port %d is open", port))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etc", "nova", "nova.conf")); err == nil {
		errs = append(errs, fmt.Errorf("files are left in %s", dir))
	}
	return errors.Join(errs...)
}
