package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HostSources returns the host's package sources of a release of Debian as lines of sources.list(5).
func HostSources(release string) ([]string, error) { return hostSources("/etc/apt", release) }

// hostSources returns the host's package sources as lines of sources.list(5), so that a site's own mirror is used. If
// the host has none for the release, the function uses those of the default base's release, since mirrors have both. It
// omits sources of other components or signers.
func hostSources(apt, release string) ([]string, error) {
	lines, err := releaseSources(apt, release)
	if ours := DefaultBase().Release; err == nil && len(lines) == 0 && release != ours {
		lines, err = releaseSources(apt, ours)
		for i, line := range lines {
			lines[i] = strings.Replace(line, " "+ours, " "+release, 1)
		}
	}
	return lines, err
}

// releaseSources returns the host's sources of one release.
func releaseSources(apt, release string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(apt, "sources.list.d", "*"))
	if err != nil {
		return nil, fmt.Errorf("list package sources: %w", err)
	}
	var lines []string
	for _, path := range append([]string{filepath.Join(apt, "sources.list")}, paths...) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		switch filepath.Ext(path) {
		case ".list":
			lines = append(lines, oneLineSources(string(content), release)...)
		case ".sources":
			lines = append(lines, stanzaSources(string(content), release)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// oneLineSources reads the one-line format of sources.list(5).
func oneLineSources(text, release string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		signer := ""
		if len(fields) > 1 && strings.HasPrefix(fields[1], "[") {
			end := slices.IndexFunc(fields, func(f string) bool { return strings.HasSuffix(f, "]") })
			if end < 0 {
				continue
			}
			for _, option := range fields[1 : end+1] {
				if value, ok := strings.CutPrefix(strings.Trim(option, "[]"), "signed-by="); ok {
					signer = value
				}
			}
			fields = slices.Delete(fields, 1, end+1)
		}
		if len(fields) < 4 || fields[0] != "deb" || !wanted(release, fields[2], fields[3:], signer) {
			continue
		}
		lines = append(lines, sourceLine(fields[1], fields[2]))
	}
	return lines
}

// stanzaSources reads the deb822 format of sources.list(5).
func stanzaSources(text, release string) []string {
	var lines []string
	for stanza := range strings.SplitSeq(text, "\n\n") {
		fields := make(map[string]string)
		key := ""
		for line := range strings.Lines(stanza) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				key = strings.ToLower(name)
				line = value
			}
			fields[key] += " " + strings.TrimSpace(line)
		}
		if strings.TrimSpace(fields["enabled"]) == "no" || !slices.Contains(strings.Fields(fields["types"]), "deb") {
			continue
		}
		for _, uri := range strings.Fields(fields["uris"]) {
			for _, s := range strings.Fields(fields["suites"]) {
				if wanted(release, s, strings.Fields(fields["components"]), fields["signed-by"]) {
					lines = append(lines, sourceLine(uri, s))
				}
			}
		}
	}
	return lines
}

// wanted reports whether a source is Debian's own archive. Other archives with the same release name differ in the
// component or the key ring.
func wanted(release, name string, components []string, signer string) bool {
	switch name {
	case release, release + "-updates", release + "-security":
	default:
		return false
	}
	ours := strings.TrimSpace(signer) == "" || strings.Contains(signer, "debian-archive")
	return ours && slices.Contains(components, "main")
}

func sourceLine(uri, name string) string {
	return "deb " + uri + " " + name + " main"
}
