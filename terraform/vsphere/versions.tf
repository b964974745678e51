# Only the version of the provider with which the tests run is admitted. To use another one, change it here. There is
# no .terraform.lock.hcl in the repository: `terraform init` writes it.
terraform {
  required_version = ">= 1.5"

  required_providers {
    vsphere = {
      source  = "hashicorp/vsphere"
      version = "1.24.3"
    }
  }
}

# The provider trusts the certificates in vsphere.pem, if it exists: `reconfigure` sets SSL_CERT_FILE to it.
provider "vsphere" {
  vsphere_server       = local.cloud.server
  user                 = local.cloud.user
  password             = lookup(local.cloud, "password", "") != "" ? local.cloud.password : trimspace(file(local.password_file))
  allow_unverified_ssl = lookup(local.cloud, "insecure", false)
}
