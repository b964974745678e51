package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

func initCommand() *cli.Command {
	return command(cli.Command{
		Name:  "init",
		Usage: "make a site folder, with the declaration of a new cluster",
		Description: "Writes all.yml with two node groups, .gitignore and README.md. What no option names is asked for on a " +
			"terminal. Images, flavors and networks are compared with those of the cloud if clouds.yaml is in DIRECTORY or " +
			"in one of its usual places. If DIRECTORY has a declaration, nothing is written. " +
			"With --from, a checkout in use becomes the site folder. docs/guides/site.md has more.",
		ArgsUsage: "DIRECTORY",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "from", Usage: "make it from this `CHECKOUT` in use: journal, states and keys are moved, and " +
				"the checkout gets links to them; without --yes, only show what is done"},
			&cli.BoolFlag{Name: "yes", Usage: "with --from: do it", DisableDefaultText: true},
			&cli.StringFlag{Name: "name", Usage: "the cluster's `NAME`; without it, that of the directory"},
			&cli.StringFlag{Name: "cloud", Usage: "the `ENTRY` of clouds.yaml"},
			&cli.StringFlag{Name: "image", Usage: "the `IMAGE` of all nodes"},
			&cli.StringSliceFlag{Name: "flavor",
				Usage: "the `FLAVOR` of the control node and the first node group; a second one is that of the second group"},
			&cli.StringFlag{Name: "network", Usage: "the `NETWORK` of all nodes"},
			&cli.StringFlag{Name: "login-user", Usage: "the `USER` of the image, with sudo; without it, by the image's name"},
			&cli.StringFlag{Name: "address",
				Usage: "the `ADDRESS` of this host for the control node; without it, its first one"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c, "init needs one directory, but got %q", c.Args().Slice())
			}
			dir, err := filepath.Abs(c.Args().First())
			if err != nil {
				return err
			}
			if c.IsSet("from") {
				return initFrom(c, dir)
			}
			if err := client.CheckNewSite(dir); err != nil {
				return usagef(c, "%v", err)
			}
			n, err := newAsker(c).site(dir)
			if err != nil {
				return err
			}
			kept, err := client.MakeSite(dir, n)
			if errors.Is(err, client.ErrSiteExists) {
				return usagef(c, "%v", err)
			} else if err != nil {
				return err
			}
			made := madeSite{Declaration: filepath.Join(dir, config.SiteFile), Kept: kept, NoKey: n.PublicKey == "", site: n}
			return show(c, made, made.write)
		},
	})
}

// madeSite is the result of init.
type madeSite struct {
	Declaration string   `json:"declaration"`
	Kept        []string `json:"kept,omitempty"` // files that were there, with another text than that of init
	NoKey       bool     `json:"no_key"`         // there is no public key in the declaration
	site        client.NewSite
}

func (m madeSite) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is written: cluster %s, which the control node reaches at %s.\n", m.Declaration, m.site.Name,
		m.site.Address)
	for _, name := range m.Kept {
		fmt.Fprintf(&b, "%s was there, and stays as it is.\n", name)
	}
	if m.NoKey {
		fmt.Fprintf(&b, "There is no ~/.ssh/id_ed25519.pub: make it by `ssh-keygen -t ed25519`, and write it as "+
			"key_pair.public_key.\n")
	}
	fmt.Fprintf(&b, "Next: `reconfigure --dir %s check`, then `reconfigure --dir %[1]s deploy`\n",
		filepath.Dir(m.Declaration))
	_, err := io.WriteString(w, b.String())
	return err
}

// asker gets the values of a new declaration from the options, or from a person on a terminal.
type asker struct {
	*cli.Context
	answers *bufio.Reader // nil: nobody can be asked
}

func newAsker(c *cli.Context) asker {
	a := asker{Context: c}
	if text.IsTerminal(c.App.Reader) && !wantsJSON(c) {
		a.answers = bufio.NewReader(c.App.Reader)
	}
	return a
}

func (a asker) site(dir string) (n client.NewSite, err error) {
	clouds, err := site.Clouds(dir)
	if err != nil {
		return n, err
	}
	only := ""
	if len(clouds) == 1 {
		only = clouds[0]
	}
	if n.Cloud, err = a.choose("cloud", "clouds.yaml", cmp.Or(a.String("cloud"), only), clouds, ""); err != nil {
		return n, err
	}
	offer, err := a.offer(dir, n.Cloud)
	if err != nil {
		return n, err
	}
	if n.Image, err = a.choose("image", "the cloud", a.String("image"), offer.Images, ""); err != nil {
		return n, err
	}
	flavors := append(a.StringSlice("flavor"), "", "")
	if len(flavors) > len(n.Flavors)+2 {
		return n, usagef(a.Context, "there are two node groups, and %d flavors: %q", len(flavors)-2, a.StringSlice("flavor"))
	}
	for i := range n.Flavors {
		if i == 1 && flavors[1] == "" {
			flavors[1] = n.Flavors[0]
		}
		if n.Flavors[i], err = a.choose("flavor", "the cloud", flavors[i], offer.Flavors, ""); err != nil {
			return n, err
		}
	}
	if n.Network, err = a.choose("network", "the cloud", a.String("network"), offer.Networks, ""); err != nil {
		return n, err
	}
	n.LoginUser, err = a.choose("login-user", "", a.String("login-user"), nil, client.LoginUserOf(n.Image))
	if err != nil {
		return n, err
	}
	if n.Address, err = a.choose("address", "", a.String("address"), nil, ownAddress()); err != nil {
		return n, err
	}
	if n.Name, err = a.choose("name", "", a.String("name"), nil, client.ClusterNameOf(dir)); err != nil {
		return n, err
	}
	if home, err := os.UserHomeDir(); err == nil {
		key, _ := os.ReadFile(filepath.Join(home, ".ssh", "id_ed25519.pub")) // without it, the result says so
		n.PublicKey = strings.TrimSpace(string(key))
	}
	return n, nil
}

// offer asks the cloud what it has. If it does not answer, it says so, and nothing is compared.
func (a asker) offer(dir, cloud string) (reconfigure.Offer, error) {
	ctx, cancel := context.WithTimeout(a.Context.Context, site.AnswerWithin)
	defer cancel()
	offer, err := site.Offer(ctx, dir, cloud)
	if err != nil && a.Context.Context.Err() == nil {
		notes(a.Context).WarnContext(ctx, "the cloud cannot be asked, so image, flavor and network are not checked",
			"reason", text.OneLine(err.Error()))
		return reconfigure.Offer{}, nil
	}
	return offer, err
}

// choose returns the value of an option; else the answer of a person; else the preset one. A value that is neither
// offered nor an id is refused, unless nothing is offered.
func (a asker) choose(option, who, value string, offered []string, preset string) (string, error) {
	given := value != ""
	for {
		problem := ""
		switch n := count(offered, value); {
		case value == "":
			problem = "--" + option + " is missing"
		case n > 1:
			problem = fmt.Sprintf("%s has %d of the name %q: give its id", who, n, value)
		case len(offered) > 0 && n == 0 && uuid.Validate(value) != nil:
			problem = fmt.Sprintf("%s has no %s %q%s", who, option, value, didYouMean("", value, offered))
		default:
			return value, nil
		}
		if !given && preset != "" && a.answers == nil {
			return preset, nil
		}
		if len(offered) > 0 {
			problem += fmt.Sprintf("; %s has %s", who, strings.Join(slices.Compact(slices.Clone(offered)), ", "))
		}
		if a.answers == nil || given {
			return "", usagef(a.Context, "%s", problem)
		}
		if value != "" {
			fmt.Fprintln(a.App.ErrWriter, problem)
		}
		var err error
		if value, err = a.ask(option, offered, preset); err != nil {
			return "", err
		}
	}
}

func count(offered []string, value string) (n int) {
	for _, name := range offered {
		if name == value {
			n++
		}
	}
	return n
}

// ask asks a person for the value of an option.
func (a asker) ask(option string, offered []string, preset string) (string, error) {
	question := strings.ReplaceAll(option, "-", " ")
	if len(offered) > 0 {
		question += " (" + strings.Join(slices.Compact(slices.Clone(offered)), ", ") + ")"
	}
	if preset != "" {
		question += " [" + preset + "]"
	}
	fmt.Fprint(a.App.ErrWriter, question+": ")
	answer, err := process.Interruptible(a.Context.Context,
		func() (string, error) { return a.answers.ReadString('\n') })
	if err != nil {
		return "", fmt.Errorf("ask for the %s: %w", option, err)
	}
	return cmp.Or(strings.TrimSpace(answer), preset), nil
}

// ownAddress returns the first address of this host that other hosts can reach; empty if it has none.
func ownAddress() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, address := range all {
		if own, ok := address.(*net.IPNet); ok && own.IP.IsGlobalUnicast() && own.IP.To4() != nil {
			return own.IP.String()
		}
	}
	return ""
}
