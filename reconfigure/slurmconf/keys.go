package slurmconf

import "strings"

// Settings returns the settings that slurm.conf may have in Slurm 22.05 or 24.11, as Slurm spells them, in
// alphabetical order. They include the keys that begin a line with further keys, such as NodeName.
func Settings() []string { return strings.Fields(allSettings) }

// NodeSettings returns the keys that a NodeName line may have in Slurm 22.05 or 24.11.
func NodeSettings() []string { return strings.Fields(allNodeSettings) }

// PartitionSettings returns the keys that a PartitionName line may have in Slurm 22.05 or 24.11.
func PartitionSettings() []string { return strings.Fields(allPartitionSettings) }

// LaterSettings returns the settings of slurm.conf that came after 24.11, up to the development of 26.11. These keys and
// those of the next two functions were not tested: each release of slurmctld accepts only some of them.
func LaterSettings() []string {
	return []string{
		"CertgenParameters", "CertgenType", "CliFilterParameters", "DefRuntimePlugin", "EpilogTimeout",
		"HealthCheckTimeout", "HttpParserType", "JobCompPassScript", "LicenseParameters", "MetricsAuthUsers",
		"MetricsParameters", "MetricsType", "NamespaceType", "PowerAction", "PrologTimeout", "SerializerParameters",
		"SerializerPlugins", "SlurmctldHttpAuthParameters", "SlurmdHttpAuthParameters", "SlurmrestdHttpAuthParameters",
		"SlurmrestdParameters", "SlurmstepdParameters", "UrlParserType",
	}
}

// LaterNodeSettings returns the keys of NodeName lines that came after 24.11.
func LaterNodeSettings() []string {
	return []string{"GresConf", "Parameters", "SuspendTime", "Topology"}
}

// LaterPartitionSettings returns the keys of PartitionName lines that came after 24.11.
func LaterPartitionSettings() []string { return []string{"Exclusive", "Topology"} }

// The lists are from src/common/read_config.c of both releases. A test checks that slurmctld of each release reads
// all settings.
const (
	allSettings = `
	AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
	AccountingStorageLoc AccountingStorageParameters AccountingStoragePass AccountingStoragePort
	AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags
	AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
	AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters
	AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude BcastParameters
	BurstBufferParameters BurstBufferType CertmgrParameters CertmgrType CliFilterPlugins ClusterName
	CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors
	CredType CryptoType DataParserParameters DebugFlags DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
	DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime
	EpilogSlurmctld ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule FederationParameters
	FirstJobId FrontendName GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime HashPlugin
	HealthCheckInterval HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions
	JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc JobCompParams JobCompPass
	JobCompPort JobCompType JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate
	JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType
	Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId
	MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout
	MinJobAge MpiDefault MpiParams NodeFeaturesPlugins NodeName NodeSet OverTimeLimit PartitionName PluginDir
	PlugStackConfig PowerParameters PowerPlugin PreemptExemptTime PreemptMode PreemptParameters PreemptType
	PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
	PriorityMaxAge PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType
	PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize
	PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog
	PrologEpilogTimeout PrologFlags PrologSlurmctld PropagatePrioProcess PropagateResourceLimits
	PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram
	ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun ResvProlog ReturnToService RoutePlugin
	SallocDefaultCommand SbcastParameters SchedulerAuth SchedulerParameters SchedulerTimeSlice SchedulerType
	ScronParameters SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldLogFile
	SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg
	SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters
	SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile
	SlurmSchedLogLevel SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes
	SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters
	SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS
	TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UsePAM
	VSizeFactor WaitTime X11Parameters`
	allNodeSettings = `
	BcastAddr Boards CoreSpecCount CoresPerSocket CPUs CPUSpecList CpuBind Feature Features Gres MemSpecLimit
	NodeAddr NodeHostname NodeName Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets SocketsPerBoard
	State ThreadsPerCore TmpDisk TRESWeights Weight`
	allPartitionSettings = `
	AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefCPUPerGPU DefMemPerCPU DefMemPerGPU
	DefMemPerNode Default DefaultTime DenyAccounts DenyQos DisableRootJobs ExclusiveTopo ExclusiveUser GraceTime
	Hidden LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes
	OverSubscribe OverTimeLimit PartitionName PowerDownOnIdle PreemptMode Priority PriorityJobFactor PriorityTier
	QOS ReqResv ResumeTimeout RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout
	TRESBillingWeights`
)
