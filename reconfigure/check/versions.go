package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Program is a program that the tool drives.
type Program string

// The programs.
const (
	Terraform Program = "Terraform"
	Plugin    Program = "Terraform's provider"
	Ansible   Program = "ansible-core"
	Slurm     Program = "Slurm"
)

// support has the oldest version of a program that works, and the versions with which the tests run.
type support struct {
	oldest string
	tested []string
	change string
}

// supported returns the supported versions. A test compares them with those that the lab installs.
func supported(p reconfigure.Provider) map[Program]support {
	return map[Program]support{
		Terraform: {"1.5.0", []string{"1.5.7"},
			"remove it from PATH (Terraform 1.5.7 is then downloaded), or set reconfigure: {terraform: PATH}"},
		Plugin: {
			p.Plugin.Oldest, p.Plugin.Tested,
			"terraform/" + p.Name + "/versions.tf has the constraint; then terraform init -upgrade",
		},
		Ansible: {"2.14.0", []string{"2.14", "2.19"}, "install that version, first on PATH"},
		Slurm:   {"22.05.0", []string{"22.05", "24.11"}, "the image of the control node and of the compute nodes"},
	}
}

// versions checks the installed versions.
func versions(facts Facts) (found []Finding) {
	for _, program := range []Program{Terraform, Plugin, Ansible, Slurm} {
		is, err := version.NewVersion(facts.Versions[program])
		if err != nil {
			continue
		}
		s := supported(facts.Provider)[program]
		finding := Finding{Check: "versions", Change: s.change}
		switch {
		case is.LessThan(version.Must(version.NewVersion(s.oldest))):
			finding.Severity = Error
			finding.What = fmt.Sprintf("%s is version %s, older than %s", program, is, s.oldest)
			finding.Why = "the tool reads its output, which has another form in that version"
		case !slices.ContainsFunc(s.tested, func(tested string) bool { return sameLine(is.String(), tested) }):
			finding.Severity = Note
			finding.What = fmt.Sprintf("%s is version %s, and the tests run with %s", program, is,
				strings.Join(s.tested, " and "))
			finding.Why = "it should work, but it is not tested"
			// Terraform decides what is removed, and a tested version is downloaded if it is missing
			if program == Terraform {
				finding.Severity = Warning
			}
		default:
			continue
		}
		found = append(found, finding)
	}
	return found
}

// sameLine reports whether two versions have the same first two numbers.
func sameLine(a, b string) bool {
	line := func(v string) string {
		parts := append(strings.SplitN(v, ".", 3), "", "")
		return strings.TrimLeft(parts[0], "0") + "." + strings.TrimLeft(parts[1], "0")
	}
	return line(a) == line(b)
}
