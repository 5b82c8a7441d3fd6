"""Lines that say only how a process ended, or that another one did."""

from preflight.diagnosis.signatures.model import ENDING, GENERAL, ROOT, VICTIM, Signature, ended_by_signal

ROWS: tuple[Signature, ...] = (
    Signature("S72", "sighup", ENDING,
              r"Received 1 death signal|got signal: 1$|got signal: 1\b(?!\d)|Received Signals\.SIGHUP death signal|closing signal SIGHUP|Received SIGHUP|SIGHUP received|\bHangup\b *$|: line \d+: +\d+ Hangup {2,}|killed by signal: Hangup|signal SIGHUP\b|nohup: .{0,40}SIGHUP|[Cc]aught SIGHUP|(?:client_loop: send disconnect|packet_write_wait: )|^Connection to \S+ closed by remote host|^Timeout, server \S+ not responding"
              r"|Signals\.SIGHUP|SignalException: .{0,60}signal: 1$|" + ended_by_signal(1, "SIGHUP"),
              "the terminal or SSH session that held the launcher was closed", "start it with gpulaunch run, tmux or nohup", "run"),
    Signature("S71", "segfault", ENDING,
              r"\bSIGSEGV\b(?! or other unexpected)|Segmentation [Ff]ault|[Ss]egmentation fault|Fatal Python error: Segmentation|segfault at [0-9a-f]+|段错误|" + ended_by_signal(11, "SIGSEGV"),
              "native code crashed: an extension built for another version, the driver, numpy",
              "python -X faulthandler shows where; reinstall that extension", "run"),
    Signature("S69", "sigabrt", ENDING,
              r"\bSIGABRT\b|^Aborted\b(?!!)|: line \d+: +\d+ Aborted|Aborted +\(core dumped\)|free\(\): (?:invalid|double)|double free or corruption|malloc\(\): |malloc_consolidate\(\)|munmap_chunk\(\)|corrupted (?:size vs\. prev_size|double-linked list|unsorted)"
              r"|realloc\(\): invalid|^(?!(?:\w+\.)*\w+Error: ).{0,160}\.(?:cc|cpp|cu|h):\d+[\]:]* +Check failed: |\*\*\* stack smashing detected|terminate called|Fatal Python error: (?!Segmentation|Bus|Illegal|Floating|Cannot recover|init|Py_Init|Failed to import)|killed by signal: Aborted|libc\+\+abi: terminating|pure virtual method called|malloc\.c:\d+: |已放弃|" + ended_by_signal(6, "SIGABRT"),
              "native code aborted: memory corruption, a C++ exception, or the NCCL watchdog",
              "the lines before it say why; a broken extension otherwise", "run"),
    Signature("S79", "illegal-instruction", ENDING, r"\bSIGILL\b|\bIllegal instruction\b(?! was)|\bSIGFPE\b|Floating point exception \(core|Fatal Python error: (?:Illegal instruction|Floating)|" + ended_by_signal(4, "SIGILL"),
              "the wheel uses instructions that this CPU lacks, or native code divided by zero", "install a build for this CPU", "known"),
    Signature("S95", "time-limit", ROOT,
              r"DUE TO TIME LIMIT|TIMEOUT\b.{0,40}(?:slurm|sacct|job)|walltime .{0,40}exceeded|[Tt]ime limit (?:exceeded|reached)|TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW)\b|active (?:on the node )?longer than (?:the )?specified deadline|DeadlineExceeded.{0,60}(?:job|Job|active)|exceeded limit .{0,20}wallclock|exceed(?:ed|s) (?:its |the )?(?:wall[- ]?(?:clock|time)|run ?time) limit",
              "the scheduler's time limit ended the job", "ask for more time, or resume from the last checkpoint", "known"),
    Signature("S96", "preempted", ROOT,
              r"DUE TO PREEMPTION|TERM_(?:PREEMPT|REQUEUE_\w+|LOAD)\b|DUE TO NODE FAILURE|NODE_FAIL|[Pp]reempted by (?:a )?(?:higher|scheduler|pod)\b|Preempting (?:job|pod)|NodeLost|^(?:srun: )?error: Node failure on |node (?:failure|has failed)|Spot (?:instance|interruption).{0,60}(?:terminat|interrupt|reclaim)|CANCELLED AT .{0,80} DUE TO|[Tt]he node was (?:shut ?down|drained)|TerminationByKubelet|[Tt]ermination is imminent|[Ii]nstance (?:was|is being|has been|will be) (?:preempted|reclaimed|interrupted)|(?:[Cc]luster|[Nn]ode|VM) (?:is|was|has been) preempted|[Ss]pot .{0,40}(?:interruption notice|reclaimed)|compute\.instances\.preempted|Evicted\b.{0,40}(?:pod|Pod)",
              "the scheduler took the node away: preemption, a node that failed, an eviction", "resume from the last checkpoint", "known"),
    Signature("S44", "scheduler-launch", ROOT,
              r"An error occurred in MPI_Init|srun: error: (?:Task launch for|Application launch failed|Unable to create step|Unable to allocate resources)|Job credential (?:expired|invalid|replayed)|Invalid job credential|[Mm]unge (?:encode|decode|cred).{0,60}(?:failed|Rewound|Expired)"
              r"|slurmstepd: error: (?:execve\(\)|couldn't chdir(?!.{0,200} going to ))|slurmstepd: error: .{0,60}(?:task_prolog|TaskProlog) .{0,120}(?:failed|exited with [1-9])|slurmstepd: error: (?:prolog failed|_spank_init|Plugin stack init)|srun: error: .{0,80}Zero Bytes were transmitted|(?:srun|sbatch|salloc): fatal: |^(?:\S{0,80}/)?(?:srun|sbatch|salloc): (?:unrecognized|invalid|ambiguous) option|\baborted before step completely launched|srun: error: (?:\S{1,80} )?tasks? [\d,-]{1,80} launch failed|sbatch: error: (?!Batch script contains DOS)|srun: error: Unable to confirm allocation|^qsub: (?!waiting|[Jj]ob \S+ (?:ready|completed))|nodes are available: \d+ [IN]|timeout waiting for task launch|Unable to contact slurm controller|MPI_INIT(?:_THREAD)? (?:has )?failed|(?:ORTE|PRTE) daemon has|PMIx_Init failed|^Error from server \(|^The connection to the server \S+ was refused|\bPMIX ERROR: |mpirun was unable to launch|mpirun has detected an attempt to run as root|There are not enough slots available in the system|ORTE was unable to reliably start|PRTE has lost communication|srun: error: .{0,60}\b(?:mpi/\w+|(?:mpi|MPI) plugin)",
              "the scheduler or launcher (Slurm, PBS, Kubernetes, mpirun) could not start the job's processes: a request that it refuses, clocks that differ (munge), a node that does not answer, a program, directory or MPI plugin that it lacks",
              "correct the option that the message names; a node that does not answer, or whose clock differs, is left out (srun --exclude) until it is"
              " repaired; with MPI the mpirun of the library's own MPI on every host", "known"),
    Signature("S111", "container-launch", GENERAL,
              r"^ERROR  : \w|^ABORT  : Retval|^FATAL: +(?:While |container creation failed|could not open image|[Uu]nable to (?:handle|build|pull))|Error response from daemon: |(?:Failed to pull|Back-off pulling) image |ErrImagePull|ImagePullBackOff|OCI runtime (?:create|exec|start) failed|unable to start container process|\b[Dd]ocker daemon(?: socket)? at |^Error: short-name |^\s*Warning +Failed +kubelet |^exec \S{1,160}: (?:exec format error|no such file|permission denied)|MountVolume\.\w+ failed|FailedCreatePodSandBox|CreateContainer(?:Config)?Error|RunContainerError|InvalidImageName"
              r"|^\[ERROR\] (?:No such file or directory: \S+\.sqsh|Command not found: |Invalid image |Failed to mount: |Could not acquire rootfs|URL https?://\S+ returned error code: )|^slurmstepd\S{0,60}: error: pyxis: (?!.{0,40}\[(?:WARN|INFO))",
              "the container could not be started: its image, a mount, or the program in it is not where the command says",
              "read the path in the message: an image goes before the program (apptainer exec IMAGE.sif PROGRAM), and mounts must exist on every host; with pyxis a squashfs image starts with / or ./", "known"),
    Signature("S70", "host-oom-killed", ENDING,
              r"(?<!exiting via Signals\.)\bSIGKILL\b(?!_| by OOM killer due to high)|\bKilled\s*$|: line \d+: +\d+ Killed\b|^Killed\b(?: +|: 9|$)|zsh: killed|^\[\d+\] +[-+]? *\d+ +killed\b|(?:worker|pid\(?s?\)? ?[\d, ]+\)?).{0,40}killed by signal: Killed|已杀死|A process in the process pool was terminated abruptly|BrokenProcessPool|Killed signal terminated program|Worker exited with code -9|" + ended_by_signal(9, "SIGKILL"),
              "a process was killed with SIGKILL: the kernel's OOM killer is the usual one, a scheduler or a person may be it",
              "sudo dmesg -T | grep -i -E 'killed process|oom'; then less host memory: workers, ranks, loading", "run"),
    Signature("S78", "terminated", ENDING,
              r"^==> interrupted: (?:stopped|Ctrl-C|SIG[A-Z]+) |CANCELLED AT|scancel|TERM_(?:FORCE_)?(?:OWNER|ADMIN)\b|process received SIG(?:INT|TERM), exiting|Received 15 death signal|got signal: 15\b|Received 2 death signal|got signal: 2\b|^KeyboardInterrupt\b|Received SIGTERM|SIGTERM received|SignalException: .{0,60}signal: (?:2|15)\b|\^CTraceback|STEP \S+ ON \S+ CANCELLED|Killed by signal 15|^Terminated *$|: line \d+: +\d+ Terminated\b|zsh: terminated|^\[\d+\] +[-+]? *\d+ +terminated\b|^\[\d+\][-+]? +Terminated\b|non-zero exit status (?:143|-15)\b",
              "the run was stopped from outside: a scheduler, or a person", "resume from the last checkpoint", "known"),
    # Other processes' words about a failed one
    Signature("S73", "terminated", VICTIM, r"^Terminated\b(?! at )|(?<!closing signal )(?<!via )\bSIGTERM\b|" + ended_by_signal(15, "SIGTERM"),
              "the launcher stopped this rank because another one failed", "look at the rank that failed first", "run", definitive=False),
    Signature("S97", "unknown", VICTIM,
              r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:exited unexpectedly|is killed by signal)|Pin memory thread exited unexpectedly|Caught \w+ in (?:DataLoader worker|replica|pin memory thread)|A worker process managed by the executor was unexpectedly terminated|One of the subprocesses has abruptly died|background workers are no longer alive|training due to lack of heartbeats"
              r"|worker process .{0,40}(?:died|exited) unexpectedly|The actor (?:is )?dead|ActorUnavailableError|[Aa] worker died or was killed while executing a task|ActorDiedError|RayActorError|WorkerCrashedError|ray\.exceptions\.RayTaskError|raised TaskError|The actor died unexpectedly",
              "a worker process ended; this line does not say why", "read that worker's own log; of a DataLoader num_workers=0 shows the traceback", "run"),
    Signature("S99", "unknown", VICTIM,
              r"ChildFailedError|closing signal SIGTERM|Sending process \d+ closing signal|Unable to shutdown process \d+ via |Engine core initialization failed|See root cause above|FAILED \(exitcode [1-9]|ERROR:composer\S*: ?Rank \d+ crashed with exit code [1-9]|returned non-zero exit status|exitcode\s*:\s*[1-9]\d*\b|return code = [1-9]|ProcessRaisedException|ProcessExitedException|process \d+ terminated with exit code [1-9]|Exited with exit code [1-9]|exited with (?:status|code) [1-9]\d*$|Primary job +terminated normally, but|Horovod (?:has been shut down|detected that one or more processes)|failed to run torchrun |srun: Job step aborted|mpirun (?:noticed|detected)|MPI_ABORT was invoked|MPI_ERRORS_ARE_FATAL|task \d+: Exited with exit code|Pod:? \S+ exited with code [1-9]|[Bb]ack-off .{0,20}restarting failed container|Container rank \d+ status failed cmd .{1,4000}\] code [1-9]|trainer process with rank=\[[\d, ]{1,200}\] was aborted",
              "a rank failed; this line does not say why", "read the first traceback of that rank's own log", "run"),
)  # fmt: skip
