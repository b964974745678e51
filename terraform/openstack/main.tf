# The instances of a Slurm cluster and what they share. Three rules keep one node's change from reaching another node:
#   - what belongs to a node has `for_each = local.nodes`, takes only `each` from it, and refers to its neighbours by `[each.key]`;
#   - what belongs to a node's address, and stays while the node has no instance, has `for_each = local.ports` instead;
#   - nothing is built from all nodes: no resource, no local, no output.
#
# A large cluster has several states, each a workspace of this module: a shard. What the nodes share is in the default workspace, and everything here is made
# from the nodes of the workspace alone, so that it means the same whether the variables have the nodes of all shards or of this one.

locals {
  cluster = yamldecode(file(var.cluster_file))
  control = local.cluster.control_node
  public  = trimspace(local.cluster.key_pair.public_key)
  mark    = "Slurm cluster ${local.cluster.cluster_name}"

  shard = terraform.workspace == "default" ? "" : terraform.workspace
  nodes = { for name, node in var.nodes : name => node if node.shard == local.shard }
  ports = merge(
    { for name, node in var.nodes : name => { group = node.group, network_id = node.network_id } if node.shard == local.shard },
    { for name, port in var.kept_ports : name => { group = port.group, network_id = port.network_id } if port.shard == local.shard },
  )

  # What the nodes share is there as long as there is a port or an instance, and in the default workspace only.
  shared = local.shard == "" && length(local.ports) > 0

  # In another workspace than the default one the security group comes as a variable. A data source would ask the cloud for it at each plan, and finds it by its
  # name, which Neutron lets other groups have too; the state of the default workspace cannot be read from here whatever the back end is.
  security_group = local.shard == "" ? one(openstack_networking_secgroup_v2.cluster[*].id) : var.shared.security_group_id

  # Slurm gives a node up at resume_timeout, and what comes later helps no job any more. The last third is for the boot and the playbooks, or for being told why
  # the node will not come.
  patience = "${floor(local.cluster.slurm.resume_timeout * 2 / 3)}s"
}

# --- Of each node ---

resource "openstack_networking_port_v2" "node" {
  for_each = local.ports

  name               = each.key
  description        = local.mark
  network_id         = each.value.network_id
  admin_state_up     = true
  security_group_ids = [local.security_group]

  lifecycle {
    precondition {
      condition     = local.shard == "" || var.shared.security_group_id != ""
      error_message = "The variables do not say which security group the default workspace has: `reconfigure` has not yet run for this workspace on this host."
    }
  }
}

resource "openstack_compute_instance_v2" "node" {
  for_each = local.nodes

  name      = each.key
  image_id  = each.value.image_id
  flavor_id = each.value.flavor_id
  key_pair  = local.cluster.key_pair.name

  # How `reconfigure` tells its instances from others.
  metadata = {
    eiffel_cluster = local.cluster.cluster_name
    eiffel_group   = each.value.group
  }

  network {
    port = openstack_networking_port_v2.node[each.key].id
  }

  timeouts {
    create = local.patience
    update = local.patience
    delete = "15m"
  }

  lifecycle {
    # Only the first boot reads the key pair; another one must not replace the nodes that run.
    ignore_changes = [key_pair]
  }

  depends_on = [openstack_compute_keypair_v2.cluster] # Nova refuses the name of a key pair that is not there yet
}

# --- Shared, in the default workspace, as long as there is a node or a port that is kept ---

resource "openstack_compute_keypair_v2" "cluster" {
  count = local.shared && local.public != "" ? 1 : 0

  name       = local.cluster.key_pair.name
  public_key = local.public
}

resource "openstack_networking_secgroup_v2" "cluster" {
  count = local.shared ? 1 : 0

  name        = local.cluster.cluster_name
  description = local.mark
}

# Slurm, munge and NFS trust the cluster's own nodes, whatever the port.
resource "openstack_networking_secgroup_rule_v2" "inside" {
  count = local.shared ? 1 : 0

  direction         = "ingress"
  ethertype         = "IPv4"
  remote_group_id   = openstack_networking_secgroup_v2.cluster[0].id
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

# The control host configures every node by SSH, and its address as the nodes see it depends on the site's routers; users log in to the control node from
# wherever they are. Who may come in at all is the network's business: a private one with a floating IP for the control node, say.
resource "openstack_networking_secgroup_rule_v2" "ssh" {
  count = local.shared ? 1 : 0

  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 22
  port_range_max    = 22
  remote_ip_prefix  = "0.0.0.0/0"
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

resource "openstack_networking_secgroup_rule_v2" "ping" {
  count = local.shared ? 1 : 0

  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "icmp"
  remote_ip_prefix  = "0.0.0.0/0"
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

# Users know this address: once there, `reconfigure` lets it go with the whole cluster only. That is what the name "control" means to it.
resource "openstack_networking_floatingip_v2" "control" {
  count = local.control.floating_ip_network != "" && contains(keys(local.nodes), local.control.name) ? 1 : 0

  pool        = local.control.floating_ip_network
  description = local.mark
  port_id     = openstack_networking_port_v2.node[local.control.name].id
}
