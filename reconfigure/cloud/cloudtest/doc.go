// Package cloudtest has the suites of the contract of a cloud, which docs/guides/add-cloud.md describes. The adapters pass
// them, and so does the simulated cluster.
package cloudtest
