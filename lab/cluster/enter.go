package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
)

// urlFile, in a lab's folder, has the URL of its cloud.
const urlFile = "cloud-url"

// Enter returns a command that runs in a lab of another process: in a node as root, or in the cluster directory as the
// user of the control host.
func Enter(ctx context.Context, lab, node string, argv ...string) (*exec.Cmd, error) {
	dir := folder(lab)
	if node == ControlHostName {
		cmd := inNamespace(ctx, filepath.Join(dir, ControlHostName, "pid"), defaultPath, siteFolder(dir), argv...)
		cmd.Env = append(cmd.Env, "TERM="+os.Getenv("TERM"))
		return cmd, cmd.Err
	}
	url, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return nil, fmt.Errorf("lab %s is not up: %w", lab, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(url))+"/lab/servers", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("lab %s does not answer: %w", lab, err)
	}
	defer response.Body.Close()
	var answer struct{ Servers []labcloud.Server }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the servers of lab %s: %w", lab, err)
	}
	for _, s := range answer.Servers {
		if s.Name == node {
			return machine.Command(filepath.Join(dir, "machines"), s.ID, argv...), nil
		}
	}
	return nil, fmt.Errorf("lab %s has no server %s", lab, node)
}
