# `reconfigure` owns `nodes`, `kept_ports` and `shared`, and writes them to nodes.auto.tfvars.json, with the nodes of all shards. Its own runs get those of one
# shard.

variable "nodes" {
  description = <<-EOT
    Every instance that shall exist, the control node too, by node name; ids and not names, so that a new image under an old name changes nothing by itself.
    `shard` is the workspace that has the node; empty is the default one. With `kept_ports` empty too, an empty map removes everything.
  EOT
  type = map(object({
    group      = string
    image_id   = string
    flavor_id  = string
    network_id = string
    shard      = optional(string, "")
  }))
  default  = {}
  nullable = false
}

variable "kept_ports" {
  description = "The nodes without an instance whose ports are kept, by node name. No name is in `nodes` too."
  type = map(object({
    group      = string
    network_id = string
    shard      = optional(string, "")
  }))
  default  = {}
  nullable = false
}

variable "shared" {
  description = "What the other workspaces must know of the default one. It is empty where there is no other."
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
