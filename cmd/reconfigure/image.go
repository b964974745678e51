package main

import (
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func imageCommand() *cli.Command {
	return &cli.Command{
		Name:            "image",
		Usage:           "make an image of a node, list the images, or check what they have",
		HideHelpCommand: true,
		OnUsageError:    onUsageError,
		Action:          noCommand,
		Subcommands:     []*cli.Command{imageCreateCommand(), imageListCommand(), imageCheckCommand()},
	}
}

func imageCreateCommand() *cli.Command {
	return command(cli.Command{
		Name:  "create",
		Usage: "make an image of a configured node",
		Description: "The node is drained, and its jobs are waited for. Then what belongs to the node or the cluster " +
			"alone is removed from its disk, as keys, host keys, Slurm's configuration and logs, and the cloud makes an " +
			"image of it. After that a persistent node is made anew; the instance of a cloud node is removed, and Slurm " +
			"may power the node up again. docs/guides/images.md has more.",
		ArgsUsage: "NODE",
		Flags: append(
			requestFlags(),
			&cli.StringFlag{Name: "name", Usage: "the `NAME` of the image", DefaultText: "cluster, group and time"},
			drainTimeoutFlag(),
		),
		Action: createImage,
	})
}

func createImage(c *cli.Context) error {
	arguments := c.Args().Slice()
	nodes, err := nodeset.Parse(arguments...)
	if err != nil || nodes.Len() != 1 {
		return usagef(c, "image create needs one node, but got %q", arguments)
	}
	timeout, err := drainTimeout(c)
	if err != nil {
		return err
	}
	s, err := siteOf(c)
	if err == nil {
		err = notAttached(c, s)
	}
	if err != nil {
		return err
	}
	g, ok := s.Cluster.GroupOf(nodes.Names()[0])
	if !ok {
		return declared(c, s.Cluster, nodes)
	}
	name := c.String("name")
	if !c.IsSet("name") {
		name = reconfigure.ImageName(s.Cluster, g, time.Now())
	}
	if err := reconfigure.CheckImageName(name); err != nil {
		return usagef(c, "%v", err)
	}
	r := reconfigure.Request{Mode: reconfigure.MakeImage, Nodes: nodes}
	r.Image, r.DrainTimeout = name, timeout
	if err := ask(c, s, r, nil); err != nil || c.Bool("no-wait") || c.Bool("dry-run") {
		return err
	}
	return withAdapters(c, s, func(adapters *site.Adapters) error {
		made, err := client.MadeImage(c.Context, adapters, name, g)
		if err != nil {
			return err
		}
		return show(c, made, printing(made))
	})
}

func imageListCommand() *cli.Command {
	return command(cli.Command{
		Name:  "list",
		Usage: "show the images that nodes run on, that are declared, or that were made here",
		Description: "READY IN is how long the nodes that run on an image took to come up when they were made last, the " +
			"median. An image that the cloud does not have any more is gone.",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				images, err := client.Images(c.Context, adapters)
				if err != nil {
					return err
				}
				return showTable(c, images, func(w io.Writer, wide bool, width int) error {
					if wide {
						width = 0
					}
					return status.WriteImages(w, images, time.Now(), width)
				})
			})
		},
	})
}

func imageCheckCommand() *cli.Command {
	return command(cli.Command{
		Name:  "check",
		Usage: "check whether images have what a node needs, and in what versions",
		Description: "It logs in to one node of each image, or to NODE, and changes nothing. Without an argument it " +
			"checks all images that nodes run on.",
		ArgsUsage: "[IMAGE|NODE]",
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef(c, "image check takes one image or node, but got %q", c.Args().Slice())
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				reports, err := client.CheckImages(c.Context, adapters, c.Args().First())
				if err != nil {
					return err
				}
				return errors.Join(show(c, reports, reports.Write), reports.Err())
			})
		},
	})
}
