"""Lines that say only how a process ended, or that another one did."""

from preflight.diagnosis.signatures.model import (
    ENDING,
    GENERAL,
    ROOT,
    VICTIM,
    Advice,
    Signature,
    match_signal,
)

# What a shell says of a command that a signal ended, where its words are not English.
_OF_SHELL = r": (?:\S+ )?\d+(?: ?行)? ?[:\uff1a] +\d+ "
_KILLED = (
    _OF_SHELL
    + r"(?:Getötet|Processus arrêté|Terminado \(killed\)|Morto|Ucciso|Убито|強制終了|已杀死|已砍掉|죽었음|Unicestwiony|Zabit)"
)
_ABORTED = (
    _OF_SHELL + r"(?:Abgebrochen|Abandon|Abortado|Annullato|Аварийный останов|中止|已放弃|중지됨|Przerwane)"
)
_SEGFAULT = r"Speicherzugriffsfehler|Erreur de segmentation|Violación de segmento|Falha de segmentação|Errore di segmentazione|Ошибка сегментирования|セグメンテーション違反|段错误|程式記憶體區段錯誤|세그멘테이션 (?:오류|폴트)|Naruszenie ochrony pamięci"
DEATHS_IN_WORDS = (
    rf"(?:{_KILLED}|{_ABORTED}).{{0,200}}\b(?:python|torchrun|accelerate|deepspeed|srun|mpirun)\b|{_SEGFAULT}"
)
NOT_FOUND_IN_WORDS = (
    r"(?:: (?:commande introuvable|(?:Befehl|Kommando) nicht gefunden\.?|orden no encontrada|comando não encontrado|comando non trovato|команда не найдена|未找到命令|找不到命令|コマンドが見つかりません|명령어를 찾을 수 없음|nie znaleziono polecenia|Command not found\.)|^fish: Unknown command: \S{1,80})$"
    # of cmd and of PowerShell
    r"|['\"] ?(?:不是(?:内部或外部命令|內部或外部命令)|は、?内部コマンドまたは外部コマンド|은\(는\) 내부 또는 외부 명령|n'est pas reconnu en tant que commande interne|no se reconoce como un comando interno|não é reconhecido como um comando interno|non è riconosciuto come comando interno|не является внутренней или внешней|ist entweder falsch geschrieben oder)"
    r"|识别为 cmdlet|詞彙是否為 Cmdlet|コマンドレット、関数、|용어가 cmdlet, |n'est pas reconnu comme nom d'applet de commande|no se reconoce como nombre de un cmdlet|não é reconhecido como nome de cmdlet|non (?:è )?riconosciuto come nome di cmdlet|не распознано как имя командлета|wurde nicht als Name eines Cmdlet"
)
PODS_FAILED = (
    r"\b(?:CrashLoopBackOff|RunContainerError|\d/\d+ +(?:Init:)?Error) +\d+ +(?:\(\S{1,9} ago\) +)?\d+[dhms]"
)
# A signal whose name comes first, is all that a logger says, or is a number; not what is done at one that may come.
STOP_IN_WORDS = (
    r"\b(?:SIG(?:TERM|INT|HUP)|[Ss]ignal (?:2|15))(?: \(\w+\))?,? (?:was )?(?:received|caught)\b(?! by\b|.{0,40}\b(?:reload|ignor))"
    r"|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot) signal:? (?:2|15)\b|\b[Ss]ignal received: SIG(?:TERM|INT)\b"
    r"|\b(?:WARN(?:ING)?|ERROR|CRITICAL)\W{1,5}(?:[\w.]{1,40}\W{1,3})?SIG(?:TERM|INT)\b(?=\W*$|[,;:])(?!.{0,80}\b(?:[Hh]andlers?|will|default)\b)"
    r"|### TASK STOPPED - USER ABORTED"
)

ROWS: tuple[Signature, ...] = (
    Signature("S72", "sighup", ENDING,
              r"Received 1 death signal|got signal: 1$|got signal: 1\b(?!\d)|Received Signals\.SIGHUP death signal|closing signal SIGHUP|[Rr]eceived SIGHUP|SIGHUP received|\bHangup\b *$|: line \d+: +\d+ Hangup {2,}|killed by signal: Hangup|signal SIGHUP\b|nohup: .{0,40}SIGHUP|[Cc]aught SIGHUP|(?:client_loop: send disconnect|packet_write_wait: )|^Connection to \S+ closed by remote host|^Timeout, server \S+ not responding"
              r"|Signals\.SIGHUP|SignalException: .{0,60}signal: 1$|" + match_signal(1, "SIGHUP"),
              "the terminal or SSH session that held the launcher was closed", "start it with gpulaunch run, or in tmux or setsid; nohup does not hold where the launcher takes the signal itself, as torchrun and accelerate do", "run"),
    Signature("S71", "segfault", ENDING,
              r"\bSIGSEGV\b(?! or (?:an)?other unexpected)|Segmentation [Ff]ault|[Ss]egmentation fault|Fatal Python error: Segmentation|segfault at [0-9a-f]+|^\[crash\] Crash detected in pid|" + _SEGFAULT + "|" + match_signal(11, "SIGSEGV"),
              "native code crashed: an extension built for another version, the driver, numpy",
              "python -X faulthandler shows where; reinstall that extension", "run"),
    Signature("S69", "sigabrt", ENDING,
              r"\bSIGABRT\b|\bsignal: aborted\b|^Aborted\b(?!!)|: line \d+: +\d+ Aborted|Aborted +\(core dumped\)|free\(\): (?:invalid|double)|double free or corruption|malloc\(\): |malloc_consolidate\(\)|munmap_chunk\(\)|corrupted (?:size vs\. prev_size|double-linked list|unsorted)"
              r"|realloc\(\): invalid|^(?!(?:\w+\.)*\w+Error: ).{0,160}\.(?:cc|cpp|cu|h):\d+[\]:]* +Check failed: |\*\*\* stack smashing detected|: Assertion [`'].{1,400}' failed\.?$|\bAssertion failed(?:: \(| in file |: .{1,200}, file )|\binternal ABORT - process \d|zsh: abort\b|\bAbort trap: 6\b|terminate called|Fatal Python error: (?!Segmentation|Bus|Illegal|Floating|Cannot recover|init|Py_Init|Failed to import)|killed by signal: Aborted|libc\+\+abi: terminating|pure virtual method called|malloc\.c:\d+: |已放弃|" + _ABORTED + "|" + match_signal(6, "SIGABRT"),
              "native code aborted: memory corruption, a C++ exception, or the NCCL watchdog",
              "the lines before it say why; a broken extension otherwise", "run"),
    Signature("S79", "illegal-instruction", ENDING, r"\bSIGILL\b|\bIllegal instruction\b(?! was)|\bSIGFPE\b|Floating point exception ?\(core|: line \d+: +\d+ Floating point exception\b|zsh: (?:illegal hardware instruction|floating point exception)\b|Fatal Python error: (?:Illegal instruction|Floating)|" + match_signal(4, "SIGILL") + "|" + match_signal(8, "SIGFPE"),
              "the wheel uses instructions that this CPU lacks, or native code divided by zero", "install a build for this CPU", "known"),
    Signature("S95", "time-limit", ROOT,
              r"DUE TO TIME LIMIT|\bAirflowTaskTimeout\b|\b[Ee]xit(?:ed)?(?: with)? (?:code|status):? 124\b|\b[Rr]un time [\d:-]+, TIMEOUT\b|\bJobState=(?:TIMEOUT|DEADLINE)\b|^\s*\d{4,}(?:_\d+)?(?:\.[\w+]+)? +(?:\S+ +){0,6}TIMEOUT\b|TIMEOUT\b.{0,40}(?:slurm|sacct|job)|walltime .{0,40}exceeded|[Tt]ime limit (?:exceeded|reached)|TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW)\b|active (?:on the node )?longer than (?:the )?specified deadline|DeadlineExceeded.{0,60}(?:job|Job|active)|exceeded limit .{0,20}wallclock|exceed(?:ed|s) (?:its |the )?(?:wall[- ]?(?:clock|time)|run ?time) limit",
              "a time limit ended the job: the scheduler's, that of `timeout`, or one of CPU time (ulimit -t)", "ask for more time, or resume from the last checkpoint", "known"),
    Signature("S96", "preempted", ROOT,
              r"DUE TO PREEMPTION|\d/\d+ +Evicted +\d+ +[(\d]|TERM_(?:PREEMPT|REQUEUE_\w+|LOAD)\b|DUE TO NODE FAILURE|(?:[Ss]tate|STATE|[Rr]eason|[Ss]tatus)\W{1,3}NODE_FAIL\b|Run time [\d:-]+, NODE_FAIL|^\s*\d{4,}(?:_\d+)?(?:\.[\w+]+)?[ |]+(?:[^\s|]+[ |]+){0,8}NODE_FAIL\b|\b(?:[Jj]ob|JOB)\b.{0,60}(?: in|:) (?:state )?NODE_FAIL$|^\s*\d{4,}(?:_\d+)?(?:\.[\w+]+)? +(?:\S+ +){0,6}PREEMPTED\b|[Nn]ode was preempted|\bHost EC2 \(instance \S+\) terminated|[Pp]reempted by (?:an? )?(?:higher|scheduler|pod|job|workload)\b|Preempting (?:job|pod)|NodeLost|^(?:(?:srun|salloc): )?error: Node failure on |node (?:failure|has failed)|Spot (?:instance|interruption).{0,60}(?:terminat|interrupt|reclaim)|CANCELLED AT .{0,80} DUE TO (?!TASK FAILURE)|[Tt]he node was (?:shut ?down|drained)|TerminationByKubelet|[Tt]ermination is imminent|(?:[Ii]nstance|[Nn]ode)(?: \S+)? (?:was|is being|has been|will be) (?:preempted|reclaimed|interrupted)|(?:[Cc]luster|[Nn]ode|VM) (?:is|was|has been) preempted|[Ss]pot .{0,40}(?:interruption notice|reclaimed)|compute\.instances\.preempted|Evicted\b.{0,40}(?:pod|Pod)",
              "the scheduler took the node away: preemption, a node that failed, an eviction", "resume from the last checkpoint", "known"),
    Signature("S137", "scheduler-launch", ROOT,
              r"\bInsufficientInstanceCapacity\b|\bResourceLimitExceeded\b|\bReason: CapacityError: |\binsufficient-capacity\b|\bZONE_RESOURCE_POOL_EXHAUSTED|\b(?:code|reason)['\"]?[:=] ?['\"]?QUOTA_EXCEEDED\b|\bVcpuLimitExceeded\b|\bSpotMaxPriceTooLow\b|MaxSpotInstanceCountExceeded|Unable to provision requested (?:ML )?compute|does not have enough resources available to fulfill|[Rr]esources are insufficient in region|no more capacity in the zone|quota metrics exceed quota limits|\bQuota '[^']{1,80}' exceeded|\bSkuNotAvailable\b|\bOutOfCapacity\b|\bOut of (?:host capacity\b|capacity for shape )|Failed to (?:acquire|provision) (?:resources in all zones|all possible launchable resources)|exceeding approved .{0,60}[Qq]uota|\bNO_CAPACITY\b|_NO_CAPACITY\b|not having enough capacity|VM instance is currently unavailable in|^\W{0,4}[Nn]o offers (?:found\W{0,3}$|with these)",
              "the cloud has no such machine to give now, or the account's quota does not allow it",
              "another zone, region or kind of machine, a reservation, or a request for more quota; nothing is wrong with the run itself", "known"),
    Signature("S140", "launch-refused", ROOT,
              r"^error: nothing was started: (?!the GPUs were not free)",
              "gpulaunch started no rank: its preflight, deep checks or rehearsal found what stops this launch",
              "do what the findings above that line say: each has its fix, and gpulaunch explain CODE says more", "run"),
    Signature("S141", "no-terminal", ROOT,
              r"^EOFError: EOF when reading a line|^termios\.error: \(25, ",
              "the script asks a question (input(), a password, a prompt of a library), and a rank has no terminal to answer at",
              "give the answer beforehand: an argument of the script, a login (wandb login, hf auth login) on the host, WANDB_MODE=offline, trust_remote_code=True", "known"),
    Signature("S44", "scheduler-launch", ROOT,
              r"\b[Ll]aunch[ _]failed[ _]requeued[ _]held\b|\bNode didn't have enough resource: |\bOutOf(?:cpu|memory|ephemeral-storage|pods)\b|srun: error: (?:Task launch for|Application launch failed|Unable to create step|Unable to allocate resources)|Job credential (?:expired|invalid|replayed)|Invalid job credential|[Mm]unge (?:encode|decode|cred).{0,60}(?:failed|Rewound|Expired)"
              r"|slurmstepd: error: (?:execve\(\)|couldn't chdir(?!.{0,200} going to ))|slurmstepd: error: .{0,60}(?:task_prolog|TaskProlog) .{0,120}(?:failed|exited with [1-9])|slurmstepd: error: (?:prolog failed|_spank_init|Plugin stack init)|srun: error: .{0,80}Zero Bytes were transmitted|(?:srun|sbatch|salloc): fatal: |^(?:\S{0,80}/)?(?:srun|sbatch|salloc): (?:unrecognized|invalid|ambiguous) option|\bslurmd(?:\[\d+\])?: (?:slurmd: )?fatal: |\baborted before step completely launched|srun: error: (?:\S{1,80} )?tasks? [\d,-]{1,80} launch failed|sbatch: error: (?!Batch script contains DOS)|srun: error: Unable to confirm allocation|^qsub: (?!waiting|[Jj]ob \S+ (?:ready|completed))|nodes are (?:un)?available: \d+ [IN]|timeout waiting for task launch|Unable to contact slurm controller|(?:ORTE|PRTE) daemon has|PMIx_Init failed|^Error from server \(|^The connection to the server \S+ was refused|\bPMIX ERROR: |mpirun was unable to launch|mpirun has detected an attempt to run as root|There are not enough slots available in the system|ORTE was unable to reliably start|srun: error: .{0,60}\b(?:mpi/\w+|(?:mpi|MPI) plugin)",
              "the scheduler or launcher (Slurm, PBS, Kubernetes, mpirun) could not start the job's processes: a request that it refuses, clocks that differ (munge), a node that does not answer, a program, directory or MPI plugin that it lacks",
              "correct the option that the message names; a node that does not answer, or whose clock differs, is left out (srun --exclude) until it is"
              " repaired; with MPI the mpirun of the library's own MPI on every host", "known"),
    Signature("S111", "container-launch", GENERAL,
              r"^ERROR  : \w|^ABORT  : Retval|^\s*FATAL: +(?:While |container creation failed|could not open image|[Uu]nable to (?:handle|build|pull))|Error response from daemon: |(?:Failed to pull|Back-off pulling) image |\bfailed to (?:pull image|register layer): |ErrImagePull|ImagePullBackOff|OCI runtime (?:create|exec|start) failed|unable to start container process|failed to (?:create|start) containerd task|Termination reason: StartError|\b[Dd]ocker daemon(?: socket)? at |^Error: short-name |^\s*Warning +Failed +kubelet |^exec \S{1,160}: (?:exec format error|no such file|permission denied)|MountVolume\.\w+ failed|nvidia-container-cli: (?:ldcache|mount|container|input) error|\bexec: \"[^\"]{1,80}\": (?:executable file not found|permission denied|no such file)|FailedCreatePodSandBox|CreateContainer(?:Config)?Error|RunContainerError|InvalidImageName"
              r"|^\[ERROR\] (?:No such file or directory: \S+\.sqsh|Command not found: |Invalid image |Failed to mount: |Could not acquire rootfs|URL https?://\S+ returned error code: )|^(?:slurmstepd\S{0,60}: |(?:\[\S{19,30}\] )?\[\d+\.\w+\] )?error: pyxis: (?!.{0,40}\[(?:WARN|INFO)|ignoring |epilog: )",
              "the container could not be started: its image, a mount, or the program in it is not where the command says",
              "read the path in the message: an image goes before the program (apptainer exec IMAGE.sif PROGRAM), and mounts must exist on every host; with pyxis a squashfs image starts with / or ./", "known"),
    Signature("S70", "host-oom-killed", ENDING,
              r"\bExited \(137\) |(?<!exiting via Signals\.)(?<!\d s, )\bSIGKILL\b(?!_| by OOM killer due to high)|\bKilled\s*$|: line \d+: +\d+ Killed\b|^Killed\b(?! by signal (?!9\b))(?: +(?!(?!by )[a-z\d])|: 9|$)|zsh: killed|\bsignal: killed$|^\[\d+\](?:[-+]? +Killed| +[-+]? *\d+ +killed)\b|(?:worker|pid\(?s?\)? ?[\d, ]+\)?).{0,40}killed by signal: Killed|已杀死|" + _KILLED + r"|A process in the process pool was terminated abruptly|BrokenProcessPool|Killed signal terminated program|Worker exited with code -9|" + match_signal(9, "SIGKILL"),
              "a process was killed with SIGKILL: the kernel's OOM killer is the usual one, a scheduler or a person may be it",
              "sudo dmesg -T | grep -i -E 'killed process|oom'; then less host memory: workers, ranks, loading", "run"),
    Signature("S78", "terminated", ENDING,
              r"^(?:\^C)*Gracefully [Ss]topping\.\.\. \(?press Ctrl\+C again|^==> interrupted: (?:stopped|Ctrl-C|SIG[A-Z]+) |CANCELLED AT(?!.{0,80} DUE TO TASK FAILURE)|scancel|TERM_(?:FORCE_)?(?:OWNER|ADMIN)\b|process received SIG(?:INT|TERM), exiting|Received 15 death signal|got signal: 15\b|Received 2 death signal|got signal: 2\b|^(?:Detected )?KeyboardInterrupt\b|\bDetected KeyboardInterrupt, attempting graceful|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:signal:? )?SIG(?:TERM|INT)\b|" + STOP_IN_WORDS + r"|SignalException: .{0,60}signal: (?:2|15)\b|\^CTraceback|STEP \S+ ON \S+ CANCELLED(?!.{0,80} DUE TO TASK FAILURE)|Killed by signal (?:2|15)\b|^Terminated(?:: 15| *$)|: line \d+: +\d+ Terminated\b|zsh: terminated|^\[\d+\] +[-+]? *\d+ +terminated\b|^\[\d+\][-+]? +Terminated\b|non-zero exit status (?:143|-15)\b",
              "the run was stopped from outside: a scheduler, or a person", "resume from the last checkpoint", "known"),
    # Other processes' words about a failed one
    Signature("S73", "terminated", VICTIM, r"^Terminated\b(?! at )|^srun: (?:Job step aborted|Force Terminated|error: \S+: tasks? [\d,-]+: Terminated\b)|(?<!closing signal )(?<!via )(?<!process receives a )\bSIGTERM\b|" + match_signal(15, "SIGTERM"),
              "SIGTERM ended this rank: its launcher, because another one failed, or a scheduler or a person", "look at the rank that failed first; if none did, find who stopped the run (sacct, journalctl)", "run", definitive=False),
    Signature("S97", "unknown", VICTIM,
              r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\)(?: exited unexpectedly| is killed by signal|$)|Pin memory thread exited unexpectedly|Caught \w+ in (?:DataLoader worker|replica|pin memory thread)|A worker process managed by the executor was unexpectedly terminated|One of the subprocesses has abruptly died|background workers are no longer alive|[Aa]bort[ _]event was set|training due to lack of heartbeats|^parallel: This job failed:"
              r"|worker process .{0,40}(?:died|exited) unexpectedly|\bThe [Kk]ernel (?:crashed while executing|appears to have died)|The actor (?:is )?dead\b(?! because its node)|ActorUnavailableError|[Aa] worker died or was killed while executing a task|ActorDiedError|RayActorError|WorkerCrashedError|ray\.exceptions\.RayTaskError|raised TaskError|The actor died unexpectedly|\bCoordinatorResetError: |\bWorker crashed during call to |\bDeadKernelError\b",
              "a worker process ended; this line does not say why", "read that worker's own log; of a DataLoader num_workers=0 shows the traceback", "run"),
    Signature("S99", "unknown", VICTIM,
              r"ChildFailedError|local_rank \S+ FAILED with no error file|" + PODS_FAILED + r"|(?:Cell|Papermill)ExecutionError|\bExecuteUserScriptError\b|\bTrainingFailedError: |\bWorkerGroupError: |\b[Rr]eplica\b.{0,60} exited with a non-zero status|\b(?:TF|PyTorch|MPI|XGBoost|Paddle|JAX)Job \S{1,120} (?:has failed because|is failed)|DUE TO TASK FAILURE|closing signal SIGTERM|Sending process \d+ closing signal|Unable to shutdown process \d+ via |Engine core initialization failed|\bfailed! Received signal: SIG|\b(?:[Ss]ee|[Ii]nspect) (?:the )?(?:root cause above|(?:stack ?trace|output)\b.{0,24} (?:root|actual|original|stacktrace)\b)|Worker failed with error\b|FAILED \(exitcode [1-9]|ERROR:composer\S*: ?Rank \d+ crashed with exit code [1-9]|returned non-zero exit status|(?:Error|Exception): .{0,160}\bexited with (?:a )?non-?zero (?:exit )?(?:status|code)|(?:Error|Exception): (?:The )?(?:[Cc]ommand|[Pp]rocess|[Ss]ubprocess|[Jj]ob|[Tt]ask) .{0,300}\bfailed with (?:return|exit) (?:code|status) [1-9]|OSError: (?!.{1,600}\b(?:aws|gsutil|gcloud|s3cmd|s5cmd|curl|wget|azcopy|rclone) ).{1,600}: exit [1-9]\d* \((?:read|write|close)\) \{|exitcode\s*:\s*[1-9]\d*\b|return code = [1-9]|ProcessRaisedException|ProcessExitedException|process \d+ terminated with exit code [1-9]|Exited with exit code [1-9]|exited with(?: a)?(?: non-?zero)?(?: return| status| exit)? (?:status|code)(?: of)? [1-9]\d*\.?$|AirflowException: (?:Bash command failed|Pod \S+ returned a failure)|Primary job +terminated normally, but|Horovod (?:has been shut down|detected that one or more processes)|failed to run torchrun |(?:mpirun|mpiexec|prterun|orterun) (?:noticed|detected) that|MPI_ABORT was invoked|MPI_ERRORS_ARE_FATAL|task \d+: Exited with exit code|Pod:? \S+ exited with code [1-9]|[Bb]ack-off .{0,20}restarting failed container|Container rank \d+ status failed cmd .{1,4000}\] code [1-9]|trainer process with rank=\[[\d, ]{1,200}\] was aborted",
              "a rank failed; this line does not say why", "read the first traceback of that rank's own log", "run"),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S72", r"^BrokenPipeError", "what read the run's output ended before it: a pager, head, tee or the terminal that it was piped to", "write the output to a file, or start it with gpulaunch run, which keeps it"),
    Advice("S71", r"ncclMnnvl|\bmnnvl\.cc", "NCCL crashed while it set up NVLink between hosts (MNNVL)", "NCCL_MNNVL_ENABLE=0 goes over the network in its place, which is slower; nvidia-smi -q shows the fabric's state", "export NCCL_MNNVL_ENABLE=0"),
    Advice("S71", r"Fatal Python error", command=""),
    Advice("S71", "", command="export PYTHONFAULTHANDLER=1"),
    Advice("S71", r"Fatal Python error: Seg", "native code crashed: an extension built for another version, the driver, numpy; the stack below the message shows who called it", "reinstall the package of the innermost call, in a build for this Python, torch and driver"),
    Advice("S69", r"(?:free|malloc|realloc)\(\): |corrupt|munmap_chunk", "", "PYTHONFAULTHANDLER=1 shows the Python line; then the package of that call in a build for this torch and Python, and no second allocator in LD_PRELOAD", "export PYTHONFAULTHANDLER=1"),
    Advice("S79", r"-8\b|\b136\b|\(8\)|FPE|[Ff]loating|signal:? 8\b", command="export PYTHONFAULTHANDLER=1 shows where a whole number was divided by zero (a size, a stride, a count of 0)"),
    Advice("S79", "", command="lscpu | grep -E 'Model name|avx'"),
    Advice("S95", r"Signal 10\b|-10\b", command="signal.signal(signal.SIGUSR1, save_and_exit): a process that does not catch the warning of --signal=USR1@SECONDS ends by it"),
    Advice("S95", r"specified deadline|DeadlineExceeded", "", "raise activeDeadlineSeconds of the job, or resume from the last checkpoint"),
    Advice("S95", r"CPU ?time|CPULIMIT|XCPU", "", "ulimit -t unlimited (the sum over all threads counts), or a queue with more CPU time"),
    Advice("S95", r"DUE TO TIME LIMIT|JobState=TIMEOUT|slurm|Run time", "", "resume from the last checkpoint, with more time (#SBATCH --time=D-HH:MM:SS; sinfo -o '%P %l' shows the most); --signal=B:USR1@300 warns five minutes before"),
    Advice("S95", r"walltime", "", "resume from the last checkpoint, with more time: qsub -l walltime=HH:MM:SS"),
    Advice("S96", r"\bactor's node was terminated|its node has died(?!(?s:.*)preempted)", "a node of Ray's cluster died or no longer answered", "ray status and its provider's console say which one and why; /tmp/ray/session_latest/logs/gcs_server.out of the head node says since when; resume from the last checkpoint"),
    Advice("S96", r"NODE_FAIL|NODE FAILURE|[Nn]ode [Ff]ailure|NodeLost|[Nn]ode has failed", "the node failed under the job", "leave it out (sbatch --exclude=NODE; sinfo -R says why it is down), and resume from the last checkpoint"),
    Advice("S96", r"Evicted", "the node evicted the pod: it ran out of memory or disk, or another pod had priority", "kubectl describe pod POD says of what; requests as large as what is used protect it; resume from the last checkpoint"),
    Advice("S44", r"cpu bind request|CPU binding outside|(?:layout|distribute) tasks", "the step cannot have the CPUs that it is to be bound to: of another step that started it, or more than it got", "srun --cpu-bind=none, or the variables of the binding taken out of the environment before it", "unset ${!SLURM_CPU_BIND*}"),
    Advice("S44", r"fetch_config|configuration source|resolve_ctls", "this host has no configuration of Slurm, and finds none by its DNS", "submit from a login node, or let SLURM_CONF name the cluster's slurm.conf", "echo $SLURM_CONF; ls /etc/slurm/slurm.conf"),
    Advice("S44", r"[Pp]rolog failed|[Pp]rolog\b.{0,200}(?:failed|No such file)|[Ll]aunch[ _]failed[ _]requeued|slurm_receive_msgs|Socket timed out on send|slurm_script: No such file", "the node could not start the job: its prolog failed, or its slurmd does not work",
           "leave the node out (sbatch --exclude=NODE) and report it: sinfo -R says what it was drained for; a held job starts anew by scontrol release JOB", "sinfo -R"),
    Advice("S44", r"Plugin (?:initialization|stack)", "a plugin of Slurm (SPANK, such as pyxis) failed on the node", "slurmd's log on that node says which and why; leave the node out (--exclude=NODE) until it is repaired", "sinfo -R"),
    Advice("S44", r"option '?--container-", "Slurm on this host has no pyxis, which takes --container-image and its like", "submit where its plugstack.conf loads pyxis, or start the container within the script (enroot start, apptainer exec)", "srun --help | grep container"),
    Advice("S44", r"Node didn't have enough|OutOf(?:cpu|memory|ephemeral-storage|pods)\b", "the node no longer had what the pod asks for when the pod came to it", "start it again, for another node is then taken; where it comes back, smaller requests (resources.requests)", "kubectl describe node NODE"),
    Advice("S44", r"[Cc]redential|[Mm]unge", command="munge -n | ssh NODE unmunge; ssh NODE date"),
    Advice("S44", r"^The connection to the server", command="kubectl config current-context; KUBECONFIG must name the cluster's file"),
    Advice("S44", r"Error from server \(Forbidden\)", command="kubectl auth can-i --list -n NAMESPACE"),
    Advice("S44", r"run as root", command="mpirun --allow-run-as-root, in a container; elsewhere as another user"),
    Advice("S44", r"(?<![\w/])mpi/\w+|(?:mpi|MPI) plugin", command="srun --mpi=list shows the plugins: take one (--mpi=pmix_v4, pmi2), or --mpi=none where torchrun starts the ranks"),
    Advice("S44", r"kubectl|\bpods?\b|kubelet|Error from server|Insufficient \w+(?:\.com/gpu)?$", command="kubectl describe pod POD"),
    Advice("S44", r"plm_rsh_agent|daemon on the local node", command="export OMPI_MCA_plm_rsh_agent=sh where the host has no ssh and one process is enough; or uninstall mpi4py, which Lightning and others import"),
    Advice("S44", r"not enough slots", command="mpirun -np N -H HOST:SLOTS,... with a slot for each GPU; --oversubscribe where it counts too few cores"),
    Advice("S44", r"An error occurred in MPI_I(?:nit|NIT)", "MPI could not start in this process: the launcher belongs to another MPI or PMI, or it was started without one", "the lines above name what it lacks; mpirun of the MPI that mpi4py or the program was built with, or srun --mpi=pmix; under torchrun, which needs no MPI, leave mpi4py out"),
    Advice("S44", r"mpirun|mpiexec|MPI_I(?:nit|NIT)|\borted\b|orte_|\bprted?\b|prte_|PMIX|PMI\b", command="which mpirun, on every host"),
    Advice("S44", r"\bqsub\b|\bPBS\b|pbs_", command="qstat -xf JOB"),
    Advice("S44", r"\b(?:srun|sbatch|salloc|slurmstepd)\b", command="sinfo -o '%P %l %D %G %N %T' lists partitions, limits and GPUs"),
    Advice("S44", r"Unable to create step|More processors requested", "", "srun --overlap within an allocation, or no more tasks and CPUs than it has: scontrol show job $SLURM_JOB_ID"),
    Advice("S44", r"\bFailedScheduling\b|nodes are available: \d", "no node of the cluster has free what the pod asks for, or none of those that it may use", "ask for less, wait until a node is free, or correct the pod's nodeSelector and tolerations; a GPU counts only where the device plugin runs (kubectl describe node NODE)"),
    Advice("S111", r"switchroot: failed to execute", "the image lacks the program that starts it", "--no-container-entrypoint where the image has an entry point of its own; else the image, or its import, is not whole: import it again", "enroot list -f"),
    Advice("S111", r"cannot create directory\W{1,3}/?\S{1,200} Permission denied|couldn't mkdir|ENROOT_\w+_PATH", "enroot's directories on that node do not belong to this user", "its administrator gives each user a directory of enroot.conf (ENROOT_RUNTIME_PATH, ENROOT_CACHE_PATH, ENROOT_DATA_PATH with $UID); one's own: export ENROOT_CACHE_PATH=DIR ENROOT_DATA_PATH=DIR", "enroot version; grep -v '^#' /etc/enroot/enroot.conf"),
    Advice("S111", r"98-nvidia\.sh|nvidia-container-cli", "NVIDIA's container tools fail on that node", "leave the node out (--exclude=NODE), and try nvidia-container-cli info on it: the driver and nvidia-container-toolkit must work on the host before a container can use them", "nvidia-container-cli info"),
    Advice("S111", r"registry-1\.docker\.io/v2/[\w-]+\.[\w.-]+/", command="--container-image=REGISTRY#IMAGE: pyxis separates a registry by #"),
    Advice("S111", r"returned error code: 40[13]", command="the registry's login belongs into ~/.config/enroot/.credentials"),
    Advice("S111", r"kubelet|ErrImagePull|ImagePullBackOff|Back-off pulling", command="kubectl describe pod POD"),
    Advice("S111", r"pull access denied", command="docker login"),
    Advice("S111", r"[Dd]ocker daemon socket", command="sudo usermod -aG docker $USER"),
    Advice("S111", r"[Dd]ocker daemon", command="docker info"),
    Advice("S111", r"\.sif\b", command="apptainer inspect IMAGE.sif"),
    Advice("S111", r"Docker daemon socket", "this user may not talk to Docker, or it is not running", "sudo usermod -aG docker $USER and log in anew; sudo systemctl start docker where docker info does not answer"),
    Advice("S111", r"exec format error", "the image or its start script is for another kind of processor, or a script without #!", "docker image inspect -f '{{.Architecture}}' IMAGE; build or pull it with --platform linux/amd64 (arm64 on Grace)"),
    Advice("S111", r"pull access denied|denied: |unauthorized|manifest unknown|ErrImagePull|ImagePullBackOff|Back-off pulling|Failed to pull", "the image cannot be pulled: its name or tag is wrong, or the registry wants a login", "docker pull IMAGE by hand shows which; docker login REGISTRY, in Kubernetes imagePullSecrets"),
    Advice("S70", "", command="sudo dmesg -T | grep -i -E 'killed process|oom'"),
    Advice("S78", r"Gracefully [Ss]topping", "a person stopped the containers (Ctrl-C in docker compose, which kills what does not end within its grace period)", "resume from the last checkpoint; docker compose up -d does not end with its terminal, stop_grace_period: gives a save its time"),
    Advice("S78", r"^(?:\^C)?KeyboardInterrupt\b", "a person stopped the run (Ctrl-C, or a notebook's stop): the traceback shows where it was then", "resume from the last checkpoint; where it was stopped because it hung, the shown line is where to look"),
    Advice("S97", r"Worker exit type|\bexceeded K8s pod memory|Actor(?:Died|Unavailable)?Error|RayActorError", "a worker of Ray ended: killed for memory, stopped, or crashed; this line does not say which", "its own log (worker-*.err and .out, raylet.out) says more; on its host sudo dmesg -T | grep -i oom shows a kill for memory: then fewer or smaller actors on a host"),
    Advice("S97", r"\b[Kk]ernel (?:crashed|appears to have died|has died|died)\b", command="jupyter nbconvert --to script NOTEBOOK.ipynb, then python -X faulthandler NOTEBOOK.py; sudo dmesg -T | grep -i oom"),
    Advice("S99", r"\b(?:CrashLoopBackOff|RunContainerError|Error) +\d+ +[(\d]|Back-off restarting failed container", command="kubectl logs --previous --all-containers POD, and kubectl describe pod POD"),
    Advice("S99", r"\bAlgorithmError\b|\bExecuteUserScriptError\b", command="aws logs tail /aws/sagemaker/TrainingJobs --since 1d --log-stream-name-prefix JOB, whose streams end in the hosts' names (algo-1)"),
    Advice("S99", r"\breplica \S{1,40} exited with a non-zero status", command="gcloud ai custom-jobs stream-logs JOB, or the log explorer's link in the message"),
    Advice("S99", r"Engine core initialization failed", "", "read the first error above it that the engine's own process printed (EngineCore, pid=...): often the GPU's memory, or a model that this vLLM does not know"),
)  # fmt: skip
