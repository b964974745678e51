# A small cluster as the tests of labcloud want it: for each node a port and an
# instance, and what they share.

terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

variable "nodes" {
  description = "Image id and flavor name of each node."
  type        = map(object({ image = string, flavor = string }))
}

variable "public_key" {
  type = string
}

provider "openstack" {}

data "openstack_networking_network_v2" "cluster" {
  name = "cluster"
}

data "openstack_networking_subnet_v2" "cluster" {
  network_id = data.openstack_networking_network_v2.cluster.id
}

data "openstack_compute_flavor_v2" "node" {
  for_each = toset([for node in var.nodes : node.flavor])
  name     = each.value
}

resource "openstack_compute_keypair_v2" "admin" {
  name       = "admin"
  public_key = var.public_key
}

resource "openstack_networking_secgroup_v2" "cluster" {
  name = "cluster"
  tags = ["lab"]
}

resource "openstack_networking_secgroup_rule_v2" "ssh" {
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 22
  port_range_max    = 22
  security_group_id = openstack_networking_secgroup_v2.cluster.id
}

resource "openstack_networking_port_v2" "node" {
  for_each           = var.nodes
  name               = each.key
  network_id         = data.openstack_networking_network_v2.cluster.id
  security_group_ids = [openstack_networking_secgroup_v2.cluster.id]

  fixed_ip {
    subnet_id = data.openstack_networking_subnet_v2.cluster.id
  }
}

resource "openstack_compute_instance_v2" "node" {
  for_each  = var.nodes
  name      = each.key
  image_id  = each.value.image
  flavor_id = data.openstack_compute_flavor_v2.node[each.value.flavor].id
  key_pair  = openstack_compute_keypair_v2.admin.name
  user_data = "#cloud-config\n"
  metadata  = { cluster = "lab" }
  tags      = ["lab"]

  network {
    port = openstack_networking_port_v2.node[each.key].id
  }
}

resource "openstack_networking_floatingip_v2" "first" {
  pool    = "public"
  port_id = openstack_networking_port_v2.node[keys(var.nodes)[0]].id

  depends_on = [openstack_compute_instance_v2.node]
}
