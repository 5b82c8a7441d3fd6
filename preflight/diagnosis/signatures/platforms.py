"""Causes by what a kernel, a fabric, a scheduler, a cloud or a container's runtime says in a form of its own.

As with `structures`, what is known is a form and not a sentence, so a cause that is found by them is likely and never
certain.
"""

# Statuses of an MPI launcher's own source, and of its help texts.
_HYDRA = r"\(pm/pmiserv/\S{1,60}\.c:\d+\): "

HEADINGS: tuple[tuple[str, str], ...] = (
    ("S44", r"\bIt looks like \S.{1,40} failed for some reason|\bFatal error in (?:internal_|P)?MPI_Init|\bAn error occurred in MPI_Init|\bBefore MPI_INIT completed|\bMPI_INIT(?:_THREAD)? (?:has )?failed"),
    ("S89", r"RuntimeError: Failed to import \S+ because of the following error|Failed to import transformers\."),
    ("S82", r"OSError: .{1,600}: exit [1-9]\d* \(read\) \{"),  # of a command that webdataset reads through
    # NVIDIA's containers, when they start: CUDA's own words are below it.
    ("S41", r"^ERROR: The NVIDIA Driver is present, but CUDA failed to initialize"),
)  # fmt: skip
"""(code of the row, pattern) of what only announces a reason, which is a cause where no line says it."""

PATTERNS: tuple[tuple[str, str], ...] = (
    # The kernel of the host. XFS, ext4 and btrfs print their name and the device (fs/*/super.c, xfs_message.c); soft lockups
    # are of kernel/watchdog.c, stalls of kernel/rcu, traps of arch/x86/kernel/traps.c.
    ("S93", r"\bEXT4-fs \(\S{1,40}\): (?!error count).{0,120}(?:\berror\b|read-only)|\bXFS \(\S{1,40}\): .{0,120}(?:[Ee]rror|[Cc]orrupt|[Ss]hut)|\bBTRFS (?:error|critical) \(|: I/O Cmd\(.{0,80}I/O Error"),
    ("S114", r"\bnhc: +Health check failed: |\bBUG: (?:soft lockup|unable to handle|kernel NULL pointer)|\brcu: INFO: .{0,40}\bdetected (?:expedited )?stall|\bkernel BUG at |\bOops: [0-9a-f]{4} "),
    ("S79", r"\btraps: .{0,80}\btrap (?:invalid opcode|divide error)"),
    ("S71", r"\btraps: .{0,80}\bgeneral protection\b"),
    # nvidia.ko, amdgpu and amdkfd (kfd_int_process_v9.c: what its err_type stands for).
    ("S36", r"\bnvidia-fabricmanager\b.{0,80}(?:[Ff]ailed|FAILURE)|[Ff]ailed to start NVIDIA [Ff]abric|\b[Ff]abric ?[Mm]anager (?:is )?not running"),
    ("S37", r"\bmodprobe: (?:ERROR|FATAL): .{0,40}\bnvidia(?![_-](?:peermem|fs))|NVIDIA-SMI couldn't find|The NVIDIA Driver was not detected|\bnvidia: probe of \S{1,40} failed with error|Error: Unable to initialize backend '(?:(?:cuda|gpu|rocm)': |tpu': .{0,80}Failed to open libtpu)"),
    ("S40", r"\bNVRM: .{0,300}(?:\bGPU (?:is )?lost\b|NV_ERR_(?:GPU_IS_LOST|TIMEOUT)|\bcommand timed out|rpcSendMessage failed)|sq_intr: error,.{0,160}\berr_type [03]\b|amdgpu: GPU reset\(\d+\) failed"),
    ("S38", r"sq_intr: error,.{0,160}\berr_type 2\b|hub\d?\] (?:no-)?(?:retry )?page fault \(|VM_L2_PROTECTION_FAULT_STATUS|amdgpu.{0,60}GPU fault detected: "),
    ("S125", r"sq_intr: error,.{0,160}\berr_type 1\b"),
    # The fabric.
    ("S67", r"\bmlx[45]_core \S{1,40}: .{0,60}\[error\]|NETDEV WATCHDOG: .{0,80}timed out|\bfi_\w{1,40}(?:\(\))?: .{0,120}\bret=-\d|\bNCCL WARN NET/IB ?: .{0,60}\bfailed\b|\bRoCE v\d GID not found|\bGID \S{0,40} ?not found\b"),
    ("S67", r"\bnvshmem\w* (?:initialization failed|setup connections failed)|nvshmem\w*/\S{0,200}(?:transport|bootstrap)\S{1,60}:\d{1,5}: (?:non-zero status: \d|NULL value |init failed for transport)|\bError in mlx5dv_devx_\w+ "),
    ("S67", r"\|CCL_ERROR\| atl_|can't find suitable provider|\berror polling [LH]P CQ with status (?!WORK REQUEST FLUSHED)|MPI processes are unable to reach each other|\bBTL failed to initialize|TCP connect to a peer MPI process|\bUnable to connect to the peer \S+ on port \d|unable to complete a TCP connection to another process|\bmca_btl_\w{1,60}\] .{0,60}(?:unexpected|error|failed)"),
    ("S51", r"\betcd\.Etcd[A-Z]\w+: |\bgethostbyname failed|\bgetaddrinfo failed|gaierror: \[Errno -?\d+\]|[Ff]ailed to establish \S{1,40} grpc channel"),
    ("S55", r"\bEI\d{4}: "),  # Ascend's HCCL numbers its errors so
    # Launchers and schedulers. The help texts of Open MPI are in its help-orte-*.txt and help-prte-*.txt.
    ("S44", r"\bJSM server is not responding\b|\bError initializing RM connection\b|\b(?:ORTE|PRTE)_ERROR_LOG: (?!.{0,80}show_help\.c)|sequential map was requested|\bYour job failed to map|" + _HYDRA + r"connection to proxy \d+ at host|launch failed requeued held|\bUnexpectedAdmissionError\b|pod group is not ready|\bJob was held\b|nodes are (?:un)?available: \d|tasks in gang unschedulable|couldn't assign flavors to pod set|^error: error validating \"|\bJob not submitted\b|Request aborted by esub|^Unable to run job: |^PBS: .{0,120}\bfailed\b|^condor_submit: ERROR"),
    ("S99", r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|\bapplication called MPI_Abort\(|\bHYD[A-Z]{0,4}_\w{2,60} \(|" + _HYDRA + r"|Fatal error in P?MPI_(?!Init)\w+: "),
    ("S76", r"\bnode had condition: .{0,60}DiskPressure|\bDiskFullError\b|^tar: .{1,200}: Wrote only \d|couldn't get temp \w+ file name"),
    ("S77", r"\bnode had condition: .{0,60}MemoryPressure|\bNODE_OUT_OF_MEMORY\b|exceeds? job (?:hard|soft) limit \"[hs]_(?:vmem|rss|data)|\b(?:[Jj]ob|[Cc]ontainer|[Pp]od|[Nn]ode|[Ww]orker|[Tt]ask|[Pp]rocess)\b.{0,60}\bran out-of-memory\b|JobContainerMemoryLimitExceeded|TerminatedByOOMKiller|memory usage exceeded request_memory|killed by the OOM killer|\bkilled by OOM\b|result 'oom-kill'"),
    ("S48", r"\bnode had condition: .{0,60}PIDPressure|\bjava\.lang\.OutOfMemoryError: unable to create |OpenBLAS ?: [Pp]rogram (?:will|is) [Tt]erminate"),
    ("S95", r"\bexceeded (?:hard|soft) (?:wallclock|cpu) time|\bMaxRuntimeExceeded\b|^The user-provided time limit for job execution has been reached"),
    ("S96", r"TaintManagerEviction|\bactor's node was (?:terminated|preempted)|\bactor (?:is dead|died) because its node has died|^(?:(?:Status|Reason): .{0,40})?\s*Reason:\s+Evicted$|\bNodeNotReady\b|\bJob was evicted\b|\bJobNodesLost\b|^\s*(?:Warning|Normal) +Preempted\b|\"action\": ?\"(?:terminate|stop|hibernate)\", ?\"time\"|[Jj]ob interrupted for spot"),
    ("S78", r"\b[Jj]ob deleted at request of |PBS: job killed: .{0,60}\brequested job terminate"),
    ("S97", r"\bhas been marked dead because\b"),
    # Containers and registries.
    ("S111", r"^\s*FATAL: {3,}\S|exec user process caused|\bOCI (?:runtime error|permission denied)|\bch-run\[\d+\]: error: |^Error for command \"|(?<!\wError: )\bunknown (?:flag: -|shorthand flag: ')|[Ii]mage build failed|^ERROR: for \S{1,80} {1,4}Cannot (?:create|start) |\bdocker: invalid reference format|\bunable to start container\b|^Error: (?:initializing source|reading manifest|copying system image)|^ERROR: failed to (?:solve|build): |\bFailedLoginToImageRegistry\b"),
    ("S81", r"\bunauthorized: (?:authentication|access|incorrect)|\bdenied: requested access to the resource|\bRequestTimeTooSkewed\b|\b(?:unable|not authorized|not permitted) to (?:assume (?:the )?role\b|perform: \w+:\w)"),
    ("S82", r"\bx509: certificate\b|^ssl\.\w*Error: |\bTunnel connection failed: \d{3}"),
    # A JVM (Spark, Hadoop, H2O), and what starts one.
    ("S21", r"\bjava\.lang\.OutOfMemoryError\b(?!: unable to create )|There is insufficient memory for the Java Runtime|\bos::commit_memory\(.{1,80} failed"),
    ("S77", r"\bContainer killed by YARN for exceeding\b"),
    ("S110", r"Java gateway process exited before|\bJAVA_HOME is not set\b|Unable to locate a Java Runtime"),
    ("S104", r"\bUnsupportedClassVersionError\b"),
    ("S89", r"\bjava\.lang\.(?:NoClassDefFoundError|ClassNotFoundException)\b|Could not find or load main class"),
    ("S92", r"\bjava\.(?:io\.FileNotFoundException|nio\.file\.NoSuchFileException): |\bUnable to access jarfile\b|(?:Exception|\[PATH_NOT_FOUND\])\S{0,80}:? (?:Input p|P)ath does not exist: "),
    ("S97", r"\bExecutorLostFailure\b|\bRemote RPC client disassociated\b"),
    # Other stacks.
    ("S137", r"\bFailed provisioning the cluster\b"),
    ("S64", r"\b[Ff]ailed to SSH to \S"),
    ("S79", r"cannot execute binary file"),
    ("S32", r"\bAssertion error \(.{0,40}deep_?gemm.{0,300}\): .{0,120}\barch_major\b"),
    ("S89", r"^ImportError: No [\w.-]{2,40} / "),  # kohya's, in two languages
    ("S136", r"\[(?:ERROR|CRITICAL)\] [A-Z_]{2,20}\(\d+,\w+,.{0,200}\[mindspore/ccsrc/(?:runtime/(?:device|hardware)|plugin/device)/"),
    ("S41", r"\b(?:start|find|connect to) (?:the )?MPS (?:control )?(?:daemon|server)\b"),
    ("S102", r"\b(?:isn't|is not|not) (?:implemented|supported) on (?:the )?backend\b|\bdoes not support MPI_THREAD_\w+"),
    ("S22", r"\bmiopenStatus(?!Success)[A-Z]\w+|\bMIOpen(?:\(\w{1,10}\))? ?Error\b|\bHIP(?:BLAS|FFT|SPARSE|SOLVER)_STATUS_(?!SUCCESS)\w+|\brocblas_status_(?!success)\w+|\bBlas \w{0,12}GEMM\w* launch failed|cuDNN failed to initialize"),
    ("S20", r"\bHSA_STATUS_ERROR_OUT_OF_RESOURCES\b"),
    ("S103", r"\bjax\.distributed\.initialize\(?\)? (?:must|should|may|can) "),
    ("S68", r"^\s*CMake Error(?: at \S{1,300}:\d+ |: )|\bptxas (?:exited|returned)\b|^nvcc fatal +: |\bninja: build stopped|^ninja: (?:error|fatal): |^FAILED: .{0,300}\.(?:o|obj|so)\b|Failed to find nvcc\b|\bRan out of memory in memory space (?:vmem|smem)\b|\bMicrosoft Visual C\+\+ \S{1,10} or greater is required|unsupported Microsoft Visual Studio version"),
    ("S108", r"\bArrowInvalid: (?:Expected to read|Not an? |Invalid |Could not open Parquet|Couldn't deserialize)"),
    ("S93", r"\bfilelock\.\S{0,20}Timeout: |The file lock '.{1,300}' could not be acquired|: buffer nbytes != file bytes \d|^(?:rm|mv|rmdir|umount): .{1,200}: Device or resource busy|\bfailed to mount file system"),
)  # fmt: skip
"""(code of the row, pattern), tried in this order behind the rows that know sentences."""
