# Only the version of the provider with which the tests run is admitted. To use another one, change it here. There is
# no .terraform.lock.hcl in the repository: `terraform init` writes it.
terraform {
  required_version = ">= 1.5"

  required_providers {
    libvirt = {
      source  = "dmacvicar/libvirt"
      version = "0.8.3"
    }
  }
}

provider "libvirt" {
  uri = local.host.uri
}
