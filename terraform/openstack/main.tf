# The instances of a Slurm cluster and their shared resources. With three rules, a change of one node does not affect
# another:
#   - a resource of a node has `for_each = local.nodes`, uses only `each` from it, and refers to other resources of the node by `[each.key]`;
#   - a resource of a node's address, which stays while the node has no instance, has `for_each = local.ports` instead;
#   - nothing is made from all nodes: no resource, no local, no output.
#
# A large cluster has several states, each a workspace of this module: a shard. The shared resources are in the
# default workspace. All resources are made only from the nodes of the selected workspace.

locals {
  cluster = yamldecode(file(var.cluster_file))
  # The defaults of missing keys are those of `reconfigure`.
  control = merge({ name = "${replace(local.cluster.cluster_name, "_", "-")}-control", floating_ip_network = "" }, local.cluster.control_node)
  key     = merge({ name = local.cluster.cluster_name, public_key = "" }, try(local.cluster.key_pair, {}))
  public  = trimspace(local.key.public_key)
  allowed = try(local.cluster.allowed_cidrs, ["0.0.0.0/0"])
  site    = try(local.cluster.control_node.cidrs, [])
  mark    = "Slurm cluster ${local.cluster.cluster_name}"

  shard = terraform.workspace == "default" ? "" : terraform.workspace

  # Terraform parses the variables at each start, so they have the nodes of one workspace: by hand those of the
  # default one; files have those of the others. `reconfigure` itself passes those of the workspace in which it runs
  # Terraform.
  given = var.shard == local.shard
  file  = jsondecode(local.given ? jsonencode({ nodes = {}, kept_ports = {} }) : file("nodes/${local.shard}.json"))
  nodes = {
    for name, node in merge(local.given ? var.nodes : {}, local.file.nodes) :
    name => merge(local.absent, node) if node.shard == local.shard
  }
  # What an entry of a file may lack.
  absent = {
    power_state = "active", availability_zone = "", server_group = "", scheduler_hints = {}, avoid = "", metadata = {}, security_groups = []
  }
  ports = merge(
    {
      for name, node in local.nodes :
      name => { group = node.group, network_id = node.network_id, security_groups = node.security_groups }
    },
    {
      for name, port in merge(local.given ? var.kept_ports : {}, local.file.kept_ports) :
      name => {
        group = port.group, network_id = port.network_id, security_groups = try(port.security_groups, [])
      } if port.shard == local.shard
    },
  )

  # `reconfigure` finds the cluster's ports by this description, and its instances by the metadata below.
  port_mark     = var.cluster_id == "" ? local.mark : "Slurm cluster id ${var.cluster_id}"
  instance_mark = var.cluster_id == "" ? {} : { eiffel_cluster_id = var.cluster_id }

  # The shared resources exist in the default workspace, while there is a port or an instance.
  shared = local.shard == "" && length(local.ports) > 0

  # In the other workspaces the security group is a variable. A data source would query the cloud at each plan, by a name that is not unique in Neutron. The
  # state of the default workspace cannot be read here in the same way for all back ends.
  security_group = local.shard == "" ? one(openstack_networking_secgroup_v2.cluster[*].id) : var.shared.security_group_id

  # Slurm gives up a node at resume_timeout, so a later instance is useless. The last third is for the boot and the
  # playbooks, or for the report of the failure.
  patience = "${floor(try(local.cluster.slurm.resume_timeout, 900) * 2 / 3)}s"
}

# --- Resources of each node ---

resource "openstack_networking_port_v2" "node" {
  for_each = local.ports

  name               = each.key
  description        = local.port_mark
  network_id         = each.value.network_id
  admin_state_up     = true
  security_group_ids = length(each.value.security_groups) > 0 ? each.value.security_groups : [local.security_group]

  lifecycle {
    # `reconfigure` itself marks the ports that are older than the id.
    ignore_changes = [description]

    precondition {
      condition     = local.shard == "" || var.shared.security_group_id != ""
      error_message = "The variables lack the id of the security group in the default workspace: `reconfigure` has not yet run for this workspace on this host."
    }
  }
}

resource "openstack_compute_instance_v2" "node" {
  for_each = local.nodes

  name        = each.key
  image_id    = each.value.image_id
  flavor_id   = each.value.flavor_id
  key_pair    = local.key.name
  power_state = each.value.power_state

  availability_zone = each.value.availability_zone == "" ? null : each.value.availability_zone

  dynamic "scheduler_hints" {
    for_each = each.value.server_group == "" && length(each.value.scheduler_hints) == 0 && each.value.avoid == "" ? [] : [each.value]
    content {
      group                 = scheduler_hints.value.server_group == "" ? null : scheduler_hints.value.server_group
      additional_properties = merge(scheduler_hints.value.avoid == "" ? {} : { different_host = scheduler_hints.value.avoid }, scheduler_hints.value.scheduler_hints)
    }
  }

  metadata = merge(each.value.metadata, local.instance_mark, {
    eiffel_cluster = local.cluster.cluster_name
    eiffel_group   = each.value.group
  })

  network {
    port = openstack_networking_port_v2.node[each.key].id
  }

  timeouts {
    create = local.patience
    update = local.patience
    delete = "15m"
  }

  lifecycle {
    # Only the first boot reads the key pair, and only the scheduler reads the placement; a change must not replace
    # existing instances, nor must an import, which lacks the hints. For an update, `reconfigure` itself asks for a
    # replacement. It also marks the instances that are older than the id, and writes eiffel_port when it adopts one.
    ignore_changes = [
      key_pair, availability_zone, scheduler_hints, metadata["eiffel_cluster_id"], metadata["eiffel_port"]
    ]
  }

  depends_on = [openstack_compute_keypair_v2.cluster] # Nova rejects a key pair that does not exist
}

# --- Shared resources, in the default workspace, while there is an instance or a kept port ---

resource "openstack_compute_keypair_v2" "cluster" {
  count = local.shared && local.public != "" ? 1 : 0

  name       = local.key.name
  public_key = local.public
}

resource "openstack_networking_secgroup_v2" "cluster" {
  count = local.shared ? 1 : 0

  name        = local.cluster.cluster_name
  description = local.mark
}

# Slurm and NFS need connections between the nodes, on many ports.
resource "openstack_networking_secgroup_rule_v2" "inside" {
  count = local.shared ? 1 : 0

  direction         = "ingress"
  ethertype         = "IPv4"
  remote_group_id   = openstack_networking_secgroup_v2.cluster[0].id
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

resource "openstack_networking_secgroup_rule_v2" "inside_ipv6" {
  count = local.shared && anytrue([for cidr in local.allowed : strcontains(cidr, ":")]) ? 1 : 0

  direction         = "ingress"
  ethertype         = "IPv6"
  remote_group_id   = openstack_networking_secgroup_v2.cluster[0].id
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

# The control host logs in to every node by SSH; its address, as the nodes see it, depends on the site's routers. Users log in to the control node.
resource "openstack_networking_secgroup_rule_v2" "ssh" {
  count = local.shared ? length(local.allowed) : 0

  direction         = "ingress"
  ethertype         = strcontains(local.allowed[count.index], ":") ? "IPv6" : "IPv4"
  protocol          = "tcp"
  port_range_min    = 22
  port_range_max    = 22
  remote_ip_prefix  = local.allowed[count.index]
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

# The control node and the nodes of a site to which the cluster is attached (control_node.existing).
resource "openstack_networking_secgroup_rule_v2" "site" {
  count = local.shared ? length(local.site) : 0

  direction         = "ingress"
  ethertype         = strcontains(local.site[count.index], ":") ? "IPv6" : "IPv4"
  remote_ip_prefix  = local.site[count.index]
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

resource "openstack_networking_secgroup_rule_v2" "ping" {
  count = local.shared ? length(local.allowed) : 0

  direction         = "ingress"
  ethertype         = strcontains(local.allowed[count.index], ":") ? "IPv6" : "IPv4"
  protocol          = strcontains(local.allowed[count.index], ":") ? "ipv6-icmp" : "icmp"
  remote_ip_prefix  = local.allowed[count.index]
  security_group_id = openstack_networking_secgroup_v2.cluster[0].id
}

# Users know this address, so `reconfigure` removes it only with the whole cluster. The fence knows the resource by the name "control".
resource "openstack_networking_floatingip_v2" "control" {
  count = local.control.floating_ip_network != "" && contains(keys(local.nodes), local.control.name) ? 1 : 0

  pool        = local.control.floating_ip_network
  description = local.mark
  port_id     = openstack_networking_port_v2.node[local.control.name].id
}
