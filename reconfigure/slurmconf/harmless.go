package slurmconf

import (
	"slices"
	"strconv"
	"strings"
)

// A rule says which changes of a setting are harmless: after a restart of slurmctld and of slurmd all running and
// waiting jobs continue. Each was tried with a running job, on Slurm 22.05 and 24.11 (docs/how-it-works/settings.md,
// which TestHarmlessSettings writes).
type rule struct {
	name string // as Slurm spells it
	// words: the value is a list, and only these words may be added, removed, or get another number after the equals
	// sign.
	words []string
	// grows: only a larger number is harmless. less is Slurm's number if the setting is missing.
	grows bool
	less  int
}

// harmless has the settings of which some changes are harmless.
var harmless = slices.Concat(
	anyValue(`
		AccountingStorageHost AccountingStorageType BatchStartTimeout BcastExclude BcastParameters CompleteWait
		DebugFlags DefMemPerCPU DefMemPerNode EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld
		FairShareDampeningFactor GetEnvTimeout GresTypes GroupUpdateForce GroupUpdateTime HealthCheckInterval
		HealthCheckNodeState HealthCheckProgram InteractiveStepOptions JobAcctGatherFrequency JobCompHost JobCompLoc
		JobCompParams JobCompPass JobCompPort JobCompType JobCompUser JobFileAppend JobRequeue JobSubmitPlugins
		KillOnBadExit KillWait LogTimeFormat MailDomain MailProg MaxBatchRequeue MaxMemPerCPU MaxMemPerNode
		MaxTasksPerNode MinJobAge PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
		PriorityMaxAge PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc
		PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES
		PrivateData Prolog PrologEpilogTimeout PrologSlurmctld PropagateResourceLimits PropagateResourceLimitsExcept
		RebootProgram ReconfigFlags ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvProlog
		ReturnToService SbcastParameters SchedulerTimeSlice SchedulerType ScronParameters SlurmctldDebug
		SlurmctldLogFile SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmdDebug
		SlurmdLogFile SlurmdSyslogDebug SlurmSchedLogFile SlurmSchedLogLevel SrunEpilog SrunProlog SuspendExcNodes
		SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout TaskEpilog TaskProlog TreeWidth
		UnkillableStepProgram X11Parameters`),
	[]rule{
		larger("EioTimeout", 60),
		larger("MaxArraySize", 1001),
		larger("MaxDBDMsgs", 0),
		larger("MaxJobCount", 10000),
		larger("MaxStepCount", 40000),
		larger("MessageTimeout", 10),
		larger("OverTimeLimit", 0),
		larger("SlurmctldTimeout", 120),
		larger("SlurmdTimeout", 300),
		larger("TCPTimeout", 2),
		larger("UnkillableStepTimeout", 60),
		wordsOf("PrologFlags", "Alloc"),
		wordsOf("TopologyPlugin", "topology/tree"),
		wordsOf("SlurmctldParameters", `
			allow_user_triggers cloud_dns cloud_reg_addrs idle_on_node_suspend node_reg_mem_percent power_save_interval
			power_save_min_interval reboot_from_controller user_resv_delete validate_nodeaddr_threads`),
		wordsOf("SchedulerParameters", `
			allow_zero_lic assoc_limit_stop batch_sched_delay bb_array_stage_cnt bf_allow_magnetic_slot bf_busy_nodes
			bf_continue bf_hetjob_immediate bf_hetjob_prio bf_interval bf_job_part_count_reserve bf_licenses
			bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_start bf_max_job_test bf_max_job_user
			bf_max_job_user_part bf_max_time bf_min_age_reserve bf_min_prio_reserve bf_node_space_size
			bf_one_resv_per_job bf_resolution bf_running_job_reserve bf_topopt_enable bf_topopt_iterations bf_window
			bf_window_linear bf_yield_interval bf_yield_sleep build_queue_timeout correspond_after_task_cnt
			default_queue_depth defer defer_batch delay_boot enable_job_state_cache enable_user_top
			extra_constraints ignore_constraint_validation ignore_prefer_validation max_array_tasks max_rpc_cnt
			max_sched_time max_script_size max_submit_line_size max_switch_wait nohold_on_prolog_fail
			pack_serial_at_end partition_job_depth reduce_completing_frag salloc_wait_nodes sbatch_wait_nodes
			sched_interval sched_max_job_start sched_min_interval spec_cores_first step_retry_count step_retry_time
			whole_hetjob`),
	})

// Change is a setting that has harmless changes.
type Change struct {
	Name  string
	Words []string // only these words of its list may change; none: any value is harmless, or any larger one
}

// Harmless returns the settings that have changes that end no job.
func Harmless() []Change {
	var all []Change
	for _, r := range harmless {
		all = append(all, Change{r.name, r.words})
	}
	return all
}

func anyValue(names string) []rule {
	var all []rule
	for name := range strings.FieldsSeq(names) {
		all = append(all, rule{name: name})
	}
	return all
}

func larger(name string, less int) rule { return rule{name: name, grows: true, less: less} }

func wordsOf(name, words string) rule { return rule{name: name, words: strings.Fields(words)} }

// isHarmless reports whether no job ends when a setting, in lower case, gets another value. The value of a missing
// setting is empty.
func isHarmless(key, is, wanted string) bool {
	i := slices.IndexFunc(harmless, func(r rule) bool { return strings.EqualFold(r.name, key) })
	return i >= 0 && harmless[i].allows(is, wanted)
}

func (r rule) allows(is, wanted string) bool {
	switch {
	case r.grows:
		before, ok := r.number(is)
		after, good := r.number(wanted)
		return ok && good && after >= before
	case r.words != nil:
		before, after := wordsIn(is), wordsIn(wanted)
		return r.knows(before, after) && r.knows(after, before)
	}
	return true
}

func (r rule) number(value string) (int, bool) {
	if value == "" {
		return r.less, true
	}
	i, err := strconv.Atoi(value)
	return i, err == nil && i >= 0
}

// knows reports whether all words that differ between the two lists are harmless.
func (r rule) knows(list, other map[string]string) bool {
	for word, whole := range list {
		known := slices.ContainsFunc(r.words, func(w string) bool { return strings.EqualFold(w, word) })
		if other[word] != whole && !known {
			return false
		}
	}
	return true
}

// wordsIn returns the entries of a list, which are WORD or WORD=NUMBER, by the word in lower case.
func wordsIn(list string) map[string]string {
	all := map[string]string{}
	for entry := range strings.SplitSeq(list, ",") {
		word, _, _ := strings.Cut(entry, "=")
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			all[word] = entry
		}
	}
	return all
}
