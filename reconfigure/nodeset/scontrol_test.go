package nodeset_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// The tests of this file compare Parse with "scontrol show hostnames".

// slurm runs scontrol. It needs a slurm.conf, and no running Slurm.
type slurm struct {
	command []string
	conf    string // path of the slurm.conf
}

// findSlurm uses the command line in EIFFEL_SCONTROL, else scontrol on PATH, else that of the lab's image. It must be
// able to read the slurm.conf whose path it gets in SLURM_CONF, which it is not in a chroot.
func findSlurm(t *testing.T) slurm {
	t.Helper()
	conf := "ClusterName=test\nSlurmctldHost=test\n"
	command := strings.Fields(os.Getenv("EIFFEL_SCONTROL"))
	if path, err := exec.LookPath("scontrol"); len(command) == 0 && err == nil {
		command = []string{path}
	}
	if len(command) == 0 {
		needs.Lab(t)
		var plugins string
		command, plugins = inImage(t, "../../.tools/image/base")
		conf += "PluginDir=" + plugins + "\n"
	}
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return slurm{command: command, conf: path}
}

// inImage returns a command that runs scontrol of a root file system with that system's libraries. Unlike chroot, it
// needs no privilege, and can read the slurm.conf of this test.
func inImage(t *testing.T, root string) (command []string, plugins string) {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	programs, _ := filepath.Glob(filepath.Join(root, "usr/bin/scontrol"))
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/ld-linux-*.so.*"))
	plugin, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/slurm-wlm"))
	if len(programs) != 1 || len(loaders) != 1 || len(plugin) != 1 {
		t.Fatalf(
			"no scontrol: install Debian's slurm-client, or make the lab's image at %s, or name a command line in "+
				"EIFFEL_SCONTROL",
			root,
		)
	}
	libraries := filepath.Dir(loaders[0]) + ":" + plugin[0]
	return []string{loaders[0], "--library-path", libraries, programs[0]}, plugin[0]
}

// sentinel separates hostlists that share one call. Slurm keeps the order and the duplicates of names, so it separates
// the answers too.
const sentinel = "sentinel"

// expand has Slurm expand each hostlist.
func (s slurm) expand(ctx context.Context, hostlists []string) ([]nodeset.NodeSet, error) {
	const longest = 100_000 // bytes; the limit of Linux is 128 KiB in one argument
	var sets []nodeset.NodeSet
	var text string
	for i, hostlist := range hostlists {
		text += hostlist + "," + sentinel
		if i+1 < len(hostlists) && len(text)+len(hostlists[i+1]) < longest {
			text += ","
			continue
		}
		names, err := s.hostnames(ctx, text)
		if err != nil {
			return nil, err
		}
		text = ""
		for len(names) > 0 {
			var set []string
			for len(names) > 0 && names[0] != sentinel {
				set, names = append(set, names[0]), names[1:]
			}
			names = names[1:]
			sets = append(sets, nodeset.Of(set...))
		}
	}
	if len(sets) != len(hostlists) {
		return nil, fmt.Errorf("%d answers to %d hostlists %q", len(sets), len(hostlists), hostlists)
	}
	return sets, nil
}

func (s slurm) hostnames(ctx context.Context, hostlist string) ([]string, error) {
	cmd := exec.CommandContext(
		ctx,
		s.command[0],
		append(s.command[1:len(s.command):len(s.command)], "show", "hostnames", hostlist)...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.conf)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	// The exit status is 0 also for a hostlist that scontrol rejects.
	if err != nil || stderr.Len() > 0 {
		return nil, fmt.Errorf("%q: %w: %s", s.command, err, stderr.String())
	}
	names := strings.Fields(string(out))
	if len(names) == 0 || names[len(names)-1] != sentinel {
		return nil, fmt.Errorf("%q: answer to %q: %s", s.command, hostlist, out)
	}
	return names, nil
}

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// checkAgreement compares the sets that we and Slurm read from hostlists, and from our canonical form of them.
func (s slurm) checkAgreement(ctx context.Context, t reporter, hostlists []string) {
	t.Helper()
	ours := make([]nodeset.NodeSet, len(hostlists))
	written := make([]string, len(hostlists))
	for i, hostlist := range hostlists {
		set, err := nodeset.Parse(hostlist)
		if err != nil {
			t.Fatal(err)
		}
		ours[i], written[i] = set, set.String()
	}
	for _, texts := range [][]string{hostlists, written} {
		theirs, err := s.expand(ctx, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			if !theirs[i].Equal(ours[i]) {
				t.Errorf(
					"Slurm expands %q to %q; Parse(%q) is %q",
					text,
					theirs[i].Names(),
					hostlists[i],
					ours[i].Names(),
				)
			}
		}
	}
}

func TestSlurmAgreesOnEdges(t *testing.T) {
	odd := make([]string, 4000)
	for i := range odd {
		odd[i] = fmt.Sprint(2*i + 1)
	}
	findSlurm(t).checkAgreement(t.Context(), t, []string{
		"n", "n1,n1", "n01,n[1-2]", "n[01-02,1-2]", "n[8-11],n[08-11]", "n[1-03]", "n[01-3]", "n[001-3]", "n[9-010]",
		"n[3,1,2]", "n[0]", "n[00-02]",
		"r[1-2][3-4]", "r[01-02][1-2]x[1-2]", "[1-2]n[3-4]", "n0[8-11]", "n[1-2]0[8-11]", "n[1-2]-[1-2]", "n9,n10,n010",
		"n99,n100,n098",
		"a[1-2]b[1-2]c[1-2]d[1-2]e[1-2]f[1-2]g[1-2]", "n[1-65536]", "n[9223372036854775800-9223372036854775807]",
		"n000000000000000000000000000001",
		"n[000000000000000000000000000001-3]", "n99999999999999999999999x[1-2]", strings.Repeat("a", 62) + "[1-2]",
		"n[" + strings.Join(odd, ",") + "]",
		"n" + strings.Join(odd, "x,n") + "x", "0x1g", "x-0",
	})
}

// hostlists generates valid hostlists that use the whole notation, with numbers where the count of digits changes. No
// name ends in more than 18 digits.
func hostlists() *rapid.Generator[string] {
	brackets := rapid.Custom(func(t *rapid.T) string {
		spans := make([]string, rapid.IntRange(1, 3).Draw(t, "ranges"))
		for i := range spans {
			lo := rapid.SampledFrom([]int{0, 1, 2, 8, 9, 10, 97, 99, 100, 998, 1000}).Draw(t, "lo")
			hi := lo + rapid.IntRange(0, 3).Draw(t, "more")
			spans[i] = fmt.Sprintf("%0*d", rapid.IntRange(1, 5).Draw(t, "width"), lo)
			if hi > lo || rapid.Bool().Draw(t, "range of one") {
				spans[i] += fmt.Sprintf("-%0*d", rapid.IntRange(1, 5).Draw(t, "other width"), hi)
			}
		}
		return "[" + strings.Join(spans, ",") + "]"
	})
	element := rapid.Custom(func(t *rapid.T) string {
		text := rapid.SampledFrom(
			[]string{"n", "n", "n", "node-", "r0", "9x", "a-b", "[1-2]x", "[07,9]-x"},
		).Draw(
			t,
			"start",
		)
		for i := range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 2, 3}).Draw(t, "brackets") {
			if i > 0 {
				text += rapid.SampledFrom([]string{"", "0", "n", "-", "x0", "-1-"}).Draw(t, "between")
			}
			text += brackets.Draw(t, "bracket")
		}
		if last := text[len(text)-1]; last != ']' && (last == '-' || strings.Contains(text, "[")) {
			text += brackets.Draw(t, "last bracket")
		}
		return text
	})
	return rapid.Map(
		rapid.SliceOfN(element, 1, 4),
		func(elements []string) string { return strings.Join(elements, ",") },
	)
}

func TestSlurmAgreesOnValidHostlists(t *testing.T) {
	scontrol, asked := findSlurm(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		batch := rapid.SliceOfN(hostlists(), 40, 80).Draw(rt, "hostlists")
		asked += len(batch)
		scontrol.checkAgreement(t.Context(), rt, batch)
	})
	t.Logf("compared %d hostlists", asked)
}

// Every hostlist that Parse accepts means the same to Slurm.
func TestSlurmAgreesOnWhateverParseAccepts(t *testing.T) {
	scontrol, asked, refused := findSlurm(t), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var taken []string
		for _, text := range rapid.SliceOfN(rapid.Custom(misprint), 80, 120).Draw(rt, "texts") {
			s, err := nodeset.Parse(text)
			switch {
			case err != nil:
				refused++
			case s.Len() < 3000: // limits the time of the test
				taken = append(taken, text)
			}
		}
		asked += len(taken)
		scontrol.checkAgreement(t.Context(), rt, taken)
	})
	t.Logf("compared %d hostlists; %d were invalid", asked, refused)
}

// misprint generates a valid hostlist with one or two characters changed, added or removed.
func misprint(t *rapid.T) string {
	text := hostlists().Draw(t, "hostlist")
	for range rapid.IntRange(1, 2).Draw(t, "errors") {
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		to := min(len(text), at+rapid.IntRange(0, 1).Draw(t, "lost"))
		text = text[:at] + rapid.SampledFrom(
			[]string{"", "0", "1", "9", "[", "]", ",", "-", "n", " "},
		).Draw(
			t,
			"added",
		) + text[to:]
	}
	return text
}
