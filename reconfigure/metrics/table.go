// Package metrics exports what the journal and the last comparison of the sources say, for Prometheus. It is a
// collector that reads them at each scrape: a scrape asks neither the cloud nor Slurm nor Terraform, and no other
// package counts anything for it. This file has all metrics; docs/reference/metrics.md is written from it.
package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one row of the table.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Help   string
	Labels []string // never a node, a job or an instance: their number has no limit
	desc   *prometheus.Desc
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"

	// daily ends the help of counters and histograms. They survive a restart of the worker, since the journal has all
	// of the day; the journal keeps at least one day.
	daily = " Since 00:00 UTC, from the journal: a restarted worker goes on with the same value."
)

var table []Metric

func define(kind, name, help string, labels ...string) *prometheus.Desc {
	m := Metric{Name: "reconfigure_" + name, Type: kind, Help: help, Labels: labels}
	m.desc = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	table = append(table, m)
	return m.desc
}

// The metrics, by what they are about.
var (
	requestsTotal = define(counter, "requests_total",
		"Requests that got their outcome."+daily, "mode", "outcome")
	requestsOpen = define(gauge, "requests_open",
		"Requests without an outcome.", "mode")
	requestsAge = define(gauge, "requests_oldest_age_seconds",
		"Age of the oldest request without an outcome; 0 if there is none.", "mode")
	deferrals = define(gauge, "deferrals",
		"Nodes, or whole requests, on which nothing can be done now, by what they wait for.", "kind")
	operationsTotal = define(counter, "operations_total",
		"Verdicts on nodes, of requests that got their outcome. The action is none if nothing was planned."+daily,
		"action", "group", "outcome")
	failuresTotal = define(counter, "failures_total",
		"Failed, refused and rejected nodes by class, of requests that got their outcome."+daily, "class", "group")
	phaseSeconds = define(histogram, "phase_duration_seconds",
		"Duration of the phases of operations, successful or not."+daily, "group", "phase")
	readySeconds = define(histogram, "node_ready_seconds",
		"Time from the begin of an operation until slurmd of its new or started instance registered."+daily, "group")
	runSeconds = define(histogram, "run_duration_seconds",
		"Duration of runs until the last of their nodes had its result. Phase apply is Terraform, configure is "+
			"Ansible."+daily, "phase")
	runNodes = define(histogram, "run_nodes",
		"Nodes of each run. Phase apply is Terraform, configure is Ansible."+daily, "phase")
	paused = define(gauge, "paused",
		"1 during a pause, in which nothing begins.")
	leaseHeld = define(gauge, "lease_held",
		"1 if a worker has the lease.")
	leaseSince = define(gauge, "lease_acquired_timestamp_seconds",
		"When the worker acquired the lease; 0 if no worker has it.")
	journalUp = define(gauge, "journal_up",
		"1 if the journal could be read for this scrape. Otherwise all values from it are missing.")
	journalSize = define(gauge, "journal_size_bytes",
		"Size of the journal's database.")
	eventsLost = define(counter, "events_lost_total",
		"Events that could not be written to the journal, since the start of this process.")
	groupFailures = define(gauge, "group_boot_failures",
		"Consecutive boot failures of a node group.", "group")
	groupBreaker = define(gauge, "group_breaker_open",
		"1 if the breaker of a node group is open: Slurm's calls get one new node of it at a time.", "group")
	comparedAt = define(gauge, "compared_timestamp_seconds",
		"When a worker last compared the sources; 0: never. The metrics below, up to findings, are from then.")
	sourceUp = define(gauge, "source_up",
		"1 if the source answered the last comparison.", "source")
	nodes = define(gauge, "nodes",
		"Nodes by their state in each source at the last comparison. Source cloud counts instances, terraform those in "+
			"its state, slurm all declared nodes; a node of Slurm that is powered_down needs no instance.",
		"group", "source", "state")
	findings = define(gauge, "findings",
		"Findings of the last comparison; no series: none.", "group", "kind")
	instanceSeconds = define(gauge, "instance_seconds_today",
		"Time of instances since 00:00 UTC by its use: used, idle, booting, wasted. A gauge, since the time of an "+
			"instance that boots becomes wasted if it fails.", "group", "use")
	campaignActive = define(gauge, "campaign_active",
		"1 while a campaign begins further nodes.")
	campaignPaused = define(gauge, "campaign_paused",
		"1 while the campaign is paused.")
	campaignNodes = define(gauge, "campaign_nodes",
		"Nodes of the newest campaign: open have a request, done and failed have a result.", "outcome")
	notifyUp = define(gauge, "notify_up",
		"1 if the last call of the notify command succeeded, 0 if it failed; no series: none was made.")
)

// Table returns all metrics.
func Table() []Metric { return append([]Metric(nil), table...) }

// Page returns docs/reference/metrics.md.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Metrics

With ` + "`reconfigure.metrics`" + ` a worker exports these at ` + "`/metrics`" + ` ([monitor.md](../guides/monitor.md)). This page is
written from ` + "`reconfigure/metrics/table.go`" + `.

| name | type | labels | meaning |
|---|---|---|---|
`)
	for _, m := range table {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Help)
	}
	return b.String()
}
