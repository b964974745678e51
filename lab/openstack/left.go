package openstack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Left returns an error with all that is on this computer of a cloud: processes, open ports, files. Another process's
// cloud counts too.
func Left() error {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	errs := []error{err}
	for _, file := range environments {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		process := filepath.Dir(file)
		if filepath.Base(process) != strconv.Itoa(os.Getpid()) && bytes.Contains(text, []byte(keeperVariable+"=")) {
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			errs = append(errs, fmt.Errorf("process %s is left: %s", filepath.Base(process), bytes.TrimSpace(name)))
		}
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
