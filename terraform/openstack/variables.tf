# `reconfigure` writes `cluster_id`, `nodes`, `kept_ports` and `shared` to nodes.auto.tfvars.json, with the nodes of the default workspace, and those of another
# one to nodes/WORKSPACE.json. Its own runs of Terraform get the nodes of their workspace as variables.

variable "cluster_id" {
  description = "The random id by which `reconfigure` knows the instances and ports of this cluster: the name is not unique. It never changes."
  type        = string
  default     = ""
  nullable    = false
}

variable "nodes" {
  description = <<-EOT
    The instances of a workspace, by node name, also that of the control node. Images, flavors and networks are ids, so that a new image with an old name changes nothing by itself.
    `power_state` is shutoff or shelved_offloaded for a node that was stopped when it was idle.
    `availability_zone`, `server_group` (an id), `scheduler_hints` and `metadata` are read when the instance is made, and so is `avoid`: the id of an instance that failed, on whose host the next one should not be made.
    `security_groups` (ids) are those of a port that somebody else has made; [] is the cluster's.
    `shard` is the workspace of the node; empty is the default one. If this map and `kept_ports` are empty, everything is removed.
  EOT
  type = map(object({
    group       = string
    image_id    = string
    flavor_id   = string
    network_id  = string
    power_state = optional(string, "active")
    shard       = optional(string, "")

    security_groups   = optional(list(string), [])
    availability_zone = optional(string, "")
    server_group      = optional(string, "")
    scheduler_hints   = optional(map(string), {})
    avoid             = optional(string, "")
    metadata          = optional(map(string), {})
  }))
  default  = {}
  nullable = false
}

variable "shard" {
  description = "The workspace whose nodes `nodes` and `kept_ports` have; empty is the default one. In any other, they are read from nodes/WORKSPACE.json."
  type        = string
  default     = ""
  nullable    = false
}

variable "kept_ports" {
  description = "The kept ports of nodes without an instance, by node name. No name may also be in `nodes`."
  type = map(object({
    group           = string
    network_id      = string
    security_groups = optional(list(string), [])
    shard           = optional(string, "")
  }))
  default  = {}
  nullable = false
}

variable "shared" {
  description = "Values of the default workspace for the others. It is empty if there are no others."
  type = object({
    security_group_id = optional(string, "")
  })
  default  = {}
  nullable = false
}

variable "cluster_file" {
  description = "The declaration of the cluster, relative to this folder."
  type        = string
  default     = "../../group_vars/all.yml"
}
