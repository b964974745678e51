package client

import (
	"fmt"
	"runtime/debug"
)

// Build is Go's build information in the binary: the module's version and, if it was built from a checkout, the
// commit.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	return fmt.Sprintf("%s (%s)", b.Version, b.Commit)
}

// Version returns the build information of this program.
func Version() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}
