package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// Images returns the images of the cluster.
func Images(ctx context.Context, a *site.Adapters) ([]status.Image, error) {
	seen, err := a.Look(ctx)
	if err != nil {
		return nil, err
	}
	images, _, err := imagesOf(ctx, a, seen)
	return images, err
}

// MadeImage returns the image with a name that was made of a node of the group.
func MadeImage(ctx context.Context, a *site.Adapters, name string, g reconfigure.NodeGroup) (status.NewImage, error) {
	seen, err := a.Look(ctx)
	if err != nil {
		return status.NewImage{}, err
	}
	images, ready, err := imagesOf(ctx, a, seen)
	if err != nil {
		return status.NewImage{}, err
	}
	made, found := status.Made(images, name, g, ready)
	if !found {
		return made, fmt.Errorf("the cloud does not list image %s", name)
	}
	return made, nil
}

// imagesOf returns the images of the cluster, and how long its nodes took to become ready when they were last made.
func imagesOf(
	ctx context.Context, a *site.Adapters, seen snapshot.Snapshot,
) ([]status.Image, map[string]time.Duration, error) {
	if why, missing := seen.Missing[snapshot.Terraform]; missing {
		return nil, nil, fmt.Errorf("it is unknown which nodes exist: %s", why)
	}
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return nil, nil, err
	}
	there, err := cloud.Images(ctx)
	if err != nil {
		return nil, nil, err
	}
	events, err := events(ctx, a)
	ready := check.LastReady(events)
	return status.NewImages(a.Site.Cluster, seen, there, ready), ready, err
}

// CheckImages checks images, each on one of the nodes that use it: the image with that name or id, the image of that
// node, or without a name all images in use. It logs in to the nodes and changes nothing.
func CheckImages(ctx context.Context, a *site.Adapters, of string) (check.ImageReports, error) {
	seen, err := a.Look(ctx)
	if err != nil {
		return nil, err
	}
	images, _, err := imagesOf(ctx, a, seen)
	if err != nil {
		return nil, err
	}
	if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
		return nil, err
	}
	control := ""
	if instance, there := seen.Instances[a.Site.Cluster.Control.Name]; there && seen.Answers(snapshot.Slurm) {
		if settings, err := a.Scheduler(instance).Settings(ctx); err == nil {
			control = settings.Values["SLURM_VERSION"]
		}
	}
	reports, found := check.ImageReports{}, of == ""
	for _, i := range images {
		nodes := i.Nodes.Difference(nodeset.Of(a.Site.Cluster.Control.Name))
		named := of == i.Name || of == i.ID
		found = found || named
		switch {
		case nodes.Contains(of):
			nodes, found = nodeset.Of(of), true
		case of != "" && !named:
			continue
		}
		node := answering(seen, nodes)
		if node == "" && of != "" {
			return nil, fmt.Errorf("no node uses image %s: power one up, then check again", i.Name)
		}
		if node != "" {
			reports = append(reports, checkImage(ctx, a, seen.Instances[node], i, control))
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no image and no running node %q; `reconfigure image list` shows the images", of)
	}
	return reports, nil
}

// answering returns the node whose slurmd is registered, else the first one; empty if there is none.
func answering(seen snapshot.Snapshot, nodes nodeset.NodeSet) string {
	names := nodes.Names()
	if i := slices.IndexFunc(names, func(node string) bool { return seen.States[node].Registered() }); i >= 0 {
		return names[i]
	}
	return strings.Join(names[:min(1, len(names))], "")
}

// checkImage checks an image on one node.
func checkImage(
	ctx context.Context, a *site.Adapters, node reconfigure.Instance, i status.Image, control string,
) check.ImageReport {
	ctx, cancel := context.WithTimeout(ctx, site.AnswerWithin)
	defer cancel()
	c := a.Site.Cluster
	argv := append(a.Site.KnownHosts(a.Journal).Command(c.LoginUser, node.Address, c.PrivateKeyFile), "sh", "-s")
	var out bytes.Buffer
	err := site.Run(ctx, process.Cmd{
		Path: argv[0], Args: argv[1:], Stdin: strings.NewReader(check.NodeScript), Stdout: &out,
	})
	return check.Image(check.NodeFacts{
		Image: i.Name, Node: node.Node, Versions: check.ParseVersions(out.String()), NFS: len(c.NFSShares) > 0,
		Control: control, Err: err,
	})
}
