module eiffel/lab/tools/tofu

go 1.26.6

require github.com/opentofu/opentofu v1.12.6

// OpenTofu needs its own version of hcl. The replace of its own go.mod has no effect here.
replace github.com/hashicorp/hcl/v2 => github.com/opentofu/hcl/v2 v2.20.2-0.20251021132045-587d123c2828
