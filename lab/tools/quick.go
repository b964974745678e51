package tools

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
)

// quickPatch is the version of the patch that shortens the waits; a provider with another one is built again. It is
// the last part of the module's path in the binary's build information.
func (p provider) quickPatch() string { return "provider-" + p.version + "-quick-1" }

// fixedWait matches two fields of a retry.StateChangeConf: the delay of the first poll, and the least time between two
// polls.
var fixedWait = regexp.MustCompile(
	`(?m)^(\s+)Delay:\s+(?:0|\d+ \* time\.Second),\n\s+MinTimeout:\s+\d+ \* time\.Second,$`)

// shorten replaces the fixed waits of one of the provider's files. With a PollInterval, the time between polls stays
// constant.
func shorten(source []byte, want int) ([]byte, error) {
	if found := len(fixedWait.FindAll(source, -1)); found != want {
		return nil, fmt.Errorf("%d fixed waits, not %d", found, want)
	}
	return fixedWait.ReplaceAll(source,
		[]byte("${1}Delay: 20 * time.Millisecond,\n${1}PollInterval: 50 * time.Millisecond,")), nil
}

// buildQuick builds the provider with its fixed waits shortened.
func (p provider) buildQuick(ctx context.Context, wrapper, file string) error {
	return buildPatched(ctx, wrapper, p.module, p.quickPatch(), file, func(source string) error {
		for name, want := range p.waits {
			err := rewrite(filepath.Join(source, "openstack", name), func(text []byte) ([]byte, error) {
				return shorten(text, want)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// isQuick reports whether the file is the provider with the patch quickPatch.
func (p provider) isQuick(file string) bool { return hasPatch(file, p.module, p.quickPatch()) }
