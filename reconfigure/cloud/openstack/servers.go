package openstack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// groupKey is the metadata of an instance that names its node group. Terraform sets it.
const groupKey = reconfigure.MetadataPrefix + "group"

// atOnce is the maximum number of concurrent calls for single servers or ports: a large cluster has thousands.
const atOnce = 10

// inError is the status of a server that failed.
const inError = "ERROR"

// listMicroversion is the newest Nova API whose list has the ids of flavors (Nova's REST API Version History, 2.47).
const listMicroversion = "2.46"

// Servers returns the instances of these nodes, by node; of the whole cluster if the set is empty. The answer may
// have other nodes of the cluster too. It makes a call for each filter of names; for thousands of instances an answer
// has several pages. A cloud allows several servers with one name, so each node has a list, the oldest first. Nova's
// list does not have the port's id, nor the fault of a server for which Nova has found no host.
func (c *Client) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	all, err := c.named(ctx, nodes)
	if err != nil {
		return nil, err
	}
	return c.byNode(all), nil
}

// named returns the project's servers with the names of these nodes, and perhaps others; all of them if the set is
// empty. Nova may list a server on two pages.
func (c *Client) named(ctx context.Context, nodes nodeset.NodeSet) ([]server, error) {
	filters := filtersFor(nodes)
	lists := make([][]server, len(filters))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, filter := range filters {
		group.Go(func() (err error) {
			lists[i], err = c.allServers(ctx, servers.ListOpts{Name: filter})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(lists...), nil
}

// byNode returns the cluster's instances among these servers, each once.
func (c *Client) byNode(all []server) map[string][]reconfigure.Server {
	ours, seen := map[string][]reconfigure.Server{}, map[string]bool{}
	for _, s := range all {
		if c.listed(s.Metadata) && !seen[s.ID] {
			seen[s.ID] = true
			ours[s.Name] = append(ours[s.Name], view(s))
		}
	}
	for _, same := range ours {
		reconfigure.OldestFirst(same)
	}
	return ours
}

// A filter may select more servers than requested: up to fewServers, or moreServers times as many. Nova needs about
// ten milliseconds for each server of a list.
const (
	fewServers  = 100
	moreServers = 4
)

// filtersFor returns filters that together select the servers with these names, and perhaps others: a filter allows
// at each position each character that one of its names has there. No server passes two filters. For no names there
// is one filter, which selects all.
func filtersFor(nodes nodeset.NodeSet) []string {
	if nodes.Empty() {
		return []string{""}
	}
	return divide(slices.Sorted(nodes.All()))
}

// divide returns the filters for sorted names: one, or, if that selects too many, those of the names that have the same
// character at the first position at which the names differ.
func divide(names []string) []string {
	filter, selected, first := filterFor(names)
	if selected <= max(fewServers, moreServers*len(names)) {
		return []string{filter}
	}
	var all []string
	for len(names) > 0 {
		other := slices.IndexFunc(names, func(name string) bool { return at(name, first) != at(names[0], first) })
		if other < 0 {
			other = len(names)
		}
		all = append(all, divide(names[:other])...)
		names = names[other:]
	}
	return all
}

// at returns the character at a position of a name; "" after its end.
func at(name string, i int) string { return name[min(i, len(name)):min(i+1, len(name))] }

// filterFor returns a filter that selects servers with these names, how many names it selects, and the first position at
// which they differ. The filter is a regular expression (Compute API, "List Servers", name). Nova evaluates it in its
// database, and in Python for servers that it has just accepted. On MySQL and MariaDB Nova escapes each "|", so that
// alternatives match nothing. So the filter has only what means the same everywhere: ^, $, ? and classes of single
// characters.
func filterFor(names []string) (filter string, selected, first int) {
	selected, first = 1, -1
	for i := 0; ; i++ {
		var chars []string
		for _, name := range names {
			chars = append(chars, at(name, i))
		}
		slices.Sort(chars) // a hyphen comes first, where it is literal
		chars = slices.Compact(chars)
		if len(chars) > 1 && first < 0 {
			first = i
		}
		selected = min(selected*len(chars), math.MaxInt32)
		ends := ""
		if chars[0] == "" {
			ends, chars = "?", chars[1:]
		}
		switch len(chars) {
		case 0:
			return "^" + filter + "$", selected, first
		case 1:
			filter += chars[0] + ends
		default:
			filter += "[" + strings.Join(chars, "") + "]" + ends
		}
	}
}

func (c *Client) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	one := *c.compute
	one.Microversion = listMicroversion
	s, err := c.server(ctx, &one, id)
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return reconfigure.Server{}, false, nil
	case err != nil:
		return reconfigure.Server{}, false, c.failed("look at server "+id+" of", err)
	}
	return view(s), true, nil
}

// ServersWithFaults returns the instances of all nodes as Servers does, with the faults that Nova's list does not have:
// each server in ERROR without a fault is read by a call of its own.
func (c *Client) ServersWithFaults(ctx context.Context) (map[string][]reconfigure.Server, error) {
	all, err := c.Servers(ctx, nodeset.NodeSet{})
	if err != nil {
		return nil, err
	}
	var (
		lock  sync.Mutex
		group errgroup.Group
	)
	group.SetLimit(atOnce)
	for node, servers := range all {
		for i, s := range servers {
			if !s.Failed() || s.Fault.Words != "" {
				continue
			}
			group.Go(func() error {
				fault, err := c.Fault(ctx, s.ID)
				lock.Lock()
				defer lock.Unlock()
				all[node][i].Fault = fault
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// Fault returns Nova's fault of a server in ERROR; empty if Nova has none, or the server is gone.
func (c *Client) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	s, err := c.server(ctx, c.compute, id)
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return reconfigure.Fault{}, nil
	case err != nil:
		return reconfigure.Fault{}, c.failed("look at server "+id+" of", err)
	}
	return fault(s), nil
}

// Port returns the id of a server's only port. It fails if the server has several ports, or none.
func (c *Client) Port(ctx context.Context, id string) (string, error) {
	pages, err := attachinterfaces.List(c.compute, id).AllPages(ctx)
	if err != nil {
		return "", c.failed("list the ports of server "+id+" of", err)
	}
	ports, err := attachinterfaces.ExtractInterfaces(pages)
	if err != nil {
		return "", c.failed("list the ports of server "+id+" of", err)
	}
	if len(ports) != 1 {
		return "", fmt.Errorf("server %s has %d ports", id, len(ports))
	}
	return ports[0].PortID, nil
}

// Reboot restarts a server and returns when it is ACTIVE again. If Nova refuses a soft reboot (it accepts one only
// for a running server) or the soft reboot does not end, Reboot makes a hard one. It may be retried; the caller MUST
// make sure that no job runs on the server.
func (c *Client) Reboot(ctx context.Context, id string) error {
	var (
		errs  []error
		class reconfigure.Class // the class of the last error
	)
	for _, how := range []servers.RebootMethod{servers.SoftReboot, servers.HardReboot} {
		err := servers.Reboot(ctx, c.compute, id, servers.RebootOpts{Type: how}).ExtractErr()
		if err == nil {
			err = c.awaitActive(ctx, id)
		}
		if err == nil {
			return nil
		}
		if class = reconfigure.ClassOf(err); class == reconfigure.ClassOther {
			class = classOf(err)
		}
		errs = append(errs, fmt.Errorf("%s reboot of server %s: %w", how, id, plain(err)))
		if ctx.Err() != nil || gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			break
		}
	}
	return reconfigure.Classify(class, errors.Join(errs...))
}

func (c *Client) awaitActive(ctx context.Context, id string) error {
	late := fmt.Errorf("not ACTIVE after %s", c.tempo.rebooted)
	ctx, cancel := context.WithTimeoutCause(ctx, c.tempo.rebooted, reconfigure.Classify(reconfigure.ClassBoot, late))
	defer cancel()
	return c.poll(ctx, func() (bool, error) {
		s, err := servers.Get(ctx, c.compute, id).Extract()
		switch {
		case err != nil:
			return false, err
		case s.Status == string(reconfigure.ServerActive) && s.TaskState == "":
			return true, nil
		case s.Status == inError:
			class := faultClass(s.Fault.Message)
			return false, reconfigure.Classify(class, fmt.Errorf("it is in ERROR: %s", s.Fault.Message))
		}
		return false, nil
	})
}

// poll calls look until it is done: at first at short intervals, since many changes take only a second, then at
// longer ones. The error is look's, or the cause of the end of ctx.
func (c *Client) poll(ctx context.Context, look func() (done bool, err error)) error {
	begun := time.Now()
	for {
		done, err := look()
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		if err := sleep.For(ctx, c.tempo.untilNextLook(time.Since(begun))); err != nil {
			return err
		}
	}
}

// untilNextLook returns a tenth of the time that has passed, within bounds.
func (t tempo) untilNextLook(passed time.Duration) time.Duration {
	return min(max(passed/10, t.soonest), t.poll)
}

// Console returns the last lines of a server's console log; all that Nova has of it if lines is zero. A new server
// may have none yet; Nova then answers "not found" or with a conflict.
func (c *Client) Console(ctx context.Context, id string, lines int) (string, error) {
	opts := servers.ShowConsoleOutputOpts{Length: lines}
	text, err := servers.ShowConsoleOutput(ctx, c.compute, id, opts).Extract()
	if err != nil {
		return "", fmt.Errorf("console of server %s: %w", id, plain(err))
	}
	return text, nil
}
