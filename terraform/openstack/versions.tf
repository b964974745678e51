# The tests run with the oldest and with the newest version of the provider that are admitted here: the state, the plan
# and the waits differ between versions, and `reconfigure` relies on them. Without a .terraform.lock.hcl, which
# `terraform init` writes, a new site gets the newest one; a site with that file keeps its version. See README.md.
terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = ">= 1.54.1, <= 3.4.0"
    }
  }
}

provider "openstack" {
  cloud = local.cluster.cloud
}
