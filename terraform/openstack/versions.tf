# Only the version of the provider with which the tests run is admitted: the state, the plan and the waits differ
# between versions, and `reconfigure` relies on them. To use another one, change it here. There is no
# .terraform.lock.hcl in the repository: `terraform init` writes it, see README.md.
terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "1.54.1"
    }
  }
}

provider "openstack" {
  cloud = local.cluster.cloud
}
