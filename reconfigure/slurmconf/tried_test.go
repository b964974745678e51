package slurmconf_test

// tried has the changes: a setting, its value before, - if it is not set, and its value after.
const tried = `
BatchStartTimeout             10                    20
BcastExclude                  -                     /opt
BcastParameters               -                     DestDir=/tmp
CompleteWait                  -                     5
DebugFlags                    -                     Backfill,NodeFeatures
DefMemPerCPU                  -                     10
EnforcePartLimits             NO                    ALL
EioTimeout                    60                    120
Epilog                        -                     /usr/local/bin/ok
EpilogMsgTime                 2000                  3000
EpilogSlurmctld               -                     /usr/local/bin/ok
FairShareDampeningFactor      -                     2
GetEnvTimeout                 2                     5
GresTypes                     -                     lic
GroupUpdateForce              1                     0
GroupUpdateTime               600                   300
HealthCheckInterval           -                     60
HealthCheckNodeState          -                     IDLE
HealthCheckProgram            -                     /usr/local/bin/ok
InteractiveStepOptions        -                     --interactive
JobAcctGatherFrequency        30                    60
JobCompHost                   -                     localhost
JobCompLoc                    /var/lib/slurm/ended  /tmp/ended
JobCompParams                 -                     a
JobCompPass                   -                     a
JobCompPort                   -                     1234
JobCompType                   jobcomp/none          jobcomp/filetxt
JobCompUser                   -                     a
JobFileAppend                 0                     1
JobRequeue                    1                     0
JobSubmitPlugins              -                     logging
KillOnBadExit                 0                     1
KillWait                      30                    60
LogTimeFormat                 iso8601_ms            rfc5424
MailDomain                    -                     example.com
MailProg                      /bin/true             /usr/local/bin/ok
MaxArraySize                  1001                  2002
MaxBatchRequeue               5                     6
MaxDBDMsgs                    -                     20000
MaxJobCount                   10000                 20000
MaxMemPerCPU                  -                     500
MaxStepCount                  40000                 50000
MaxTasksPerNode               512                   256
MessageTimeout                10                    20
MinJobAge                     300                   600
OverTimeLimit                 -                     10
PriorityCalcPeriod            5                     6
PriorityDecayHalfLife         7-0                   14-0
PriorityFavorSmall            NO                    YES
PriorityFlags                 -                     SMALL_RELATIVE_TO_TIME
PriorityMaxAge                7-0                   1-0
PriorityType                  priority/basic        priority/multifactor
PriorityUsageResetPeriod      NONE                  MONTHLY
PriorityWeightAge             0                     10
PriorityWeightAssoc           0                     10
PriorityWeightFairshare       0                     10
PriorityWeightJobSize         0                     10
PriorityWeightPartition       0                     10
PriorityWeightQOS             0                     10
PriorityWeightTRES            -                     CPU=10
PrivateData                   -                     cloud
Prolog                        -                     /usr/local/bin/ok
PrologEpilogTimeout           -                     300
PrologFlags                   -                     Alloc
PrologSlurmctld               -                     /usr/local/bin/ok
PropagateResourceLimits       ALL                   NONE
RebootProgram                 -                     /usr/local/bin/ok
ReconfigFlags                 -                     KeepPartInfo
ResumeFailProgram             -                     /usr/local/bin/ok
ResumeProgram                 -                     /usr/local/bin/ok
ResumeRate                    300                   0
ResumeTimeout                 60                    900
ResvEpilog                    -                     /usr/local/bin/ok
ResvProlog                    -                     /usr/local/bin/ok
ReturnToService               0                     2
SbcastParameters              -                     DestDir=/tmp
SchedulerTimeSlice            30                    60
SchedulerType                 sched/backfill        sched/builtin
ScronParameters               -                     enable
SlurmctldDebug                info                  debug
SlurmctldLogFile              -                     /var/log/slurm/slurmctld.log
SlurmctldPrimaryOffProg       -                     /usr/local/bin/ok
SlurmctldPrimaryOnProg        -                     /usr/local/bin/ok
SlurmctldSyslogDebug          quiet                 fatal
SlurmctldTimeout              120                   240
SlurmdDebug                   info                  debug
SlurmdLogFile                 -                     /var/log/slurm/slurmd.log
SlurmdSyslogDebug             quiet                 fatal
SlurmdTimeout                 300                   600
SlurmSchedLogFile             -                     /var/log/slurm/sched.log
SlurmSchedLogLevel            0                     1
SrunEpilog                    -                     /usr/local/bin/ok
SrunProlog                    -                     /usr/local/bin/ok
SuspendExcNodes               ctl                   ctl,cloud1
SuspendExcParts               -                     main
SuspendExcStates              -                     DOWN
SuspendProgram                -                     /usr/local/bin/ok
SuspendRate                   60                    0
SuspendTime                   -                     600
SuspendTimeout                30                    120
TaskEpilog                    -                     /usr/local/bin/ok
TaskProlog                    -                     /usr/local/bin/ok
TCPTimeout                    2                     4
TreeWidth                     -                     65533
UnkillableStepProgram         -                     /usr/local/bin/ok
UnkillableStepTimeout         60                    120
X11Parameters                 -                     home_xauthority
`

// apart has changes that cannot be made together with those in tried.
const apart = `
DefMemPerNode                 -                     10
MaxMemPerNode                 -                     500
PropagateResourceLimitsExcept -                     NOFILE
`

// numbers has the words in lists that need a number, each with a number.
var numbers = map[string]string{
	"batch_sched_delay": "4", "bb_array_stage_cnt": "11", "bf_hetjob_prio": "min", "bf_interval": "31",
	"bf_job_part_count_reserve": "1", "bf_max_job_array_resv": "21", "bf_max_job_assoc": "10",
	"bf_max_job_part": "10", "bf_max_job_start": "10", "bf_max_job_test": "400", "bf_max_job_user": "10",
	"bf_max_job_user_part": "10", "bf_max_time": "60", "bf_min_age_reserve": "10", "bf_min_prio_reserve": "10",
	"bf_node_space_size": "1000", "bf_resolution": "120", "bf_topopt_iterations": "10", "bf_window": "2880",
	"bf_window_linear": "10", "bf_yield_interval": "1000000", "bf_yield_sleep": "400000",
	"build_queue_timeout": "1000000", "correspond_after_task_cnt": "11", "default_queue_depth": "90",
	"delay_boot": "1", "max_array_tasks": "1000", "max_rpc_cnt": "100", "max_sched_time": "2",
	"max_script_size": "1000000", "max_submit_line_size": "100000", "max_switch_wait": "200",
	"partition_job_depth": "10", "sched_interval": "61", "sched_max_job_start": "10",
	"sched_min_interval": "1000000", "step_retry_count": "9", "step_retry_time": "50",
	"node_reg_mem_percent": "50", "power_save_interval": "20", "power_save_min_interval": "1",
	"validate_nodeaddr_threads": "2",
}
