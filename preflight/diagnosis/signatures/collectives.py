"""NCCL, Gloo and DDP."""

from preflight.diagnosis.signatures.model import GENERAL, ROOT, VICTIM, Advice, Signature

ROWS: tuple[Signature, ...] = (
    Signature("S58", "nccl-version", ROOT,
              r"^(?!.*NET/Socket).*receiving \d+ bytes instead of \d+|Mismatched NCCL version|undefined symbol: p?nccl\w+|NCCL version mismatch|libnccl\.so\S*: (?:version|undefined|cannot open)"
              r"|NCCL library is (?:too old|not backwards compatible)|ncclInvalidUsage.{0,120}(?:version|differ)|NCCL (?:library )?version .{0,60}(?:does not match|differs|mismatch|incompatible|too old)"
              r"|Bootstrap ?: .{0,60}mismatched? (?:version|NCCL)|[Mm]ismatch(?:ed)? (?:in )?NCCL|NCCL [\d.]+ .{0,40}(?:but|while) .{0,40}NCCL [\d.]+|wrong NCCL version"
              r"|symbol lookup error: .{0,200}nccl\w+|ncclGetVersion.{0,60}mismatch|found NCCL [\d.]+,? (?:but )?(?:require|need|expect)",
              "different NCCL versions meet: between hosts, or two wheels in one environment",
              "install the same torch on all hosts; pip list | grep nccl must show one wheel", "thread"),
    Signature("S63", "nccl-p2p-unsupported", ROOT, r"RTX (?:3000|4000|5000|6000) series doesn't support faster|peer access is not supported between these two|peer mapping resources exhausted|cudaErrorPeerAccessUnsupported|cudaErrorTooManyPeers",
              "these GPUs have no peer-to-peer over PCIe with this driver, or one process opens it to more than eight others",
              "NCCL_P2P_DISABLE=1 for every rank: data then goes by the host's memory, which is slower; vLLM: --disable-custom-all-reduce", "source"),
    Signature("S116", "nccl-system-error", ROOT,
              r"Bootstrap Root : (?:mismatch in rank count|rank \d+ of \d+ ranks has already checked in)",
              "processes of two launches, or started for different numbers of ranks, meet at one main port",
              "end what an earlier launch left (gpulaunch clean-zombies HOSTS); the same number of nodes and ranks on every host, a rank of its own for"
              " each, and another port for a second run", "source", broad=True),
    Signature("S66", "nccl-system-error", ROOT,
              r"Bootstrap ?: no socket interface found|NCCL WARN.{0,200}No route to host|[Nn]o (?:usable )?(?:socket|network) interface found|NET/Socket : no interface found"
              r"|NCCL WARN Call to (?:bind|listen|socket|getsockname) failed|NCCL WARN(?!.{0,80}NET/IB).{0,80}[Uu]nable to (?:find|bind|open)|No interface found in the same subnet"
              r"|Unable to find (?:address|interface) for|Unable to resolve hostname to a \(local\) address|[Ii]nterface \S+ not found|[Gg]loo.{0,120}(?:ifaddr|interface)"
              r"|NCCL WARN Could not find .{0,80}(?:interface|device)|NCCL WARN(?!.{0,60}\bibv_).{0,60}(?:Too many open|pthread_create|Cannot allocate|cuMem\w+ failed)"
              r"|Last error:? ?Bootstrap|NCCL WARN Error: network .{0,40} not found|Failed to initialize any NET plugin",
              "NCCL has no usable network interface, or its ports are closed",
              "NCCL_SOCKET_IFNAME=IF GLOO_SOCKET_IFNAME=IF with the interface of the main address; open the ephemeral ports"
              " between the hosts", "thread"),
    Signature("S62", "collective-mismatch", ROOT,
              r"[Dd]etected mismatch between collectives|[Mm]ismatch(?:ed)? (?:between )?collective|op\.preamble\.length <= op\.nbytes"
              r"|[Mm]onitored [Bb]arrier encountered error|Received data size doesn't match expected size|NET/Socket : .{0,80}message truncated : |NCCL WARN NET/IB ?: .{0,120}collective mismatch error, local size|^(?:\w+\.)*DistributedOperationException|DDP expects same model across all ranks"
              r"|DDP expects same params across|appears not to match (?:sizes|strides) of the same param|verify_params_across_processes"
              r"|inconsistent \d+ params|[Uu]neven inputs|Detected that rank \d+ .{0,40}different (?:number|collective)|collectives? (?:differ|do not match|are out of sync)"
              r"|has different sequence number|Shapes across devices:|Impossible to apply the desired operation due to inadequate shapes"
              r"|[Mm]ismatched (?:sizes|shapes) across ranks|world_size times input tensor size|size times world[_ ]size|number of collective participants"
              r"|scatter/gather must (?:have|match)|ProcessGroup\w+::\w+: invalid tensor (?:size|type)",
              "the ranks took different code paths, or their tensors differ in size",
              "the same data length, configuration and precision on all ranks; TORCH_DISTRIBUTED_DEBUG=DETAIL names the call", "source"),
    Signature("S67", "nccl-network", ROOT,
              r"NET/IB ?: Got (?:async event|completion).{0,200}(?:error|err|event)|Connect to \S+ failed ?: (?:Software caused connection abort|Connection timed out|Connection refused|Network is unreachable)"
              r"|NCCL WARN Call to ibv_\w+ failed|\b(?:ibv|fi)_\w+(?:\(\))? failed|NET/IB.{0,160}(?:timeout|error 12|status=12|vendor err|local work queue|retry exceeded)"
              r"|NCCL WARN Call to connect (?:to \S+ )?(?:returned|failed).{0,60}|NCCL WARN .{0,60}Call to \w+ (?:from|to) \S+ failed ?: .{0,30}(?:timed out|refused|unreachable|No route to host)|169\.254\.\d+\.\d+<\d+>|NCCL WARN NET/(?:IB|Socket|OFI).{0,120}(?:fail|error|timed out|unreachable|[Uu]nable)"
              r"|NCCL WARN socketStartConnect|NCCL WARN socketPollConnect|NCCL WARN.{0,60}(?:exceeded error retry|timeout exceeded|Timeout waiting)|transport retry counter exceeded"
              r"|NCCL WARN.{0,60}NET/OFI|NET/OFI (?:Couldn't|OFI NCCL failure)|nccl_net_ofi.{0,100}(?:fail|error)|IBV_WC_\w*ERR|\bib_mlx5_log\.c:\d+ |libibverbs: .{0,40}(?:error|failed)|\b(?:[Ff]ailed to|[Uu]nable to|[Cc]ould not) (?:create|modify|connect) (?:the |a )?(?:\w+ )?(?:QP|queue pair)\b|connectFullMesh failed|Gloo connectFullMesh|Connect timeout \[\S+\]",
              "the network that NCCL, Gloo or NVSHMEM chose does not carry its traffic", "NCCL_SOCKET_IFNAME=IF (Gloo: GLOO_SOCKET_IFNAME=IF) with the interface of the main address, and open"
              " ports between the hosts; gpulaunch preflight HOSTS shows links that are down and who cannot reach whom", "thread"),
    Signature("S26", "ddp-unused-parameters", ROOT,
              r"Expected to mark a variable ready only once|has been marked as ready twice|marking a variable ready multiple times",
              "DDP saw a parameter's gradient twice in one step: reentrant checkpointing, a shared module, or two backward passes",
              "gradient_checkpointing_kwargs={'use_reentrant': False} (checkpoint(..., use_reentrant=False)); otherwise call the"
              " shared module once per step. find_unused_parameters=True makes it worse", "source"),
    Signature("S61", "ddp-unused-parameters", ROOT,
              r"Expected to have finished reduction in the prior iteration|[Pp]arameter indices which did not receive grad for rank"
              r"|parameters that were not used in producing (?:the )?loss|Parameters which did not receive grad for rank"
              r"|find_unused_parameters(?:=True|`)? (?:is required|must be)|your module has parameters that were not used",
              "some parameters take no part in the loss under DDP", "find_unused_parameters=True where some are left out on purpose: DistributedDataParallel(..., find_unused_parameters=True),"
              " --ddp_find_unused_parameters True (Trainer), strategy='ddp_find_unused_parameters_true' (Lightning), DistributedDataParallelKwargs"
              " (accelerate); else freeze them, or take them into the loss. TORCH_DISTRIBUTED_DEBUG=INFO names them", "source"),
    Signature("S25", "collective-mismatch", ROOT,
              r"Detected at least one rank that exhausted inputs|Rank \d+ exhausted all inputs",
              "a rank ended before the others and without an error, which then lost it: it has fewer batches, or left its loop early",
              "the same number of steps on every rank: drop_last=True and a DistributedSampler, model.join(), or a `break` that all"
              " ranks take together", "run"),
    Signature("S102", "collective-unsupported", ROOT,
              r"^RuntimeError: Invalid scalar type$|data type (?:is not supported )?for NCCL process group|ProcessGroup\w+ does(?: not|n't) support|\bBackend \w+ does not yet support |Tensors must be CUDA and dense"
              r"|Float8 dtypes are not \w+ supported for NCCL|Cannot use ReduceOp\.\w+ with|[Bb]ackend (?:nccl|gloo|mpi|ucc|xccl|hccl) does not (?:support|implement) \w+|No backend type associated with device type|FP8 reduction support begins|NCCL WARN No algorithm/protocol available",
              "the back end of this collective (Gloo, NCCL, MPI) is not in this torch, does not take the tensor's dtype or device, or does not have the operation",
              "NCCL for tensors on GPUs, Gloo for those on the CPU (init_process_group('cpu:gloo,cuda:nccl')); tensor.float() or"
              " .contiguous() before the call", "known"),
    Signature("S112", "user-exception", ROOT,
              r"train_batch_size is not equal to micro_batch_per_gpu|Check batch related parameters\.|[Bb]atch size .{0,40}should be divisible by .{0,40}(?:num_processes|number of (?:GPUs|processes))|world_size .{0,80} is not divisible by",
              "batch sizes, parallel degrees and the number of ranks do not fit together",
              "change the one of the message's numbers that does not fit, or start as many ranks as it wants: train_batch_size = micro batch per GPU x"
              " accumulation steps x ranks ('auto' in a DeepSpeed config under Trainer); tensor x pipeline x data parallel degrees = number of ranks", "source"),
    Signature("S56", "nccl-cuda-error", GENERAL, r"unhandled (?:cuda|CUDA) error|NCCL INFO (?:init|group)\.cc:\d+ -> 1\b|ncclUnhandledCudaError|NCCL WARN (?:cuda?|hip)[A-Z]\w+(?:\(\))? failed|NCCL WARN Cuda failure|Test CUDA failure",
              "CUDA failed inside NCCL: memory, a busy GPU or the driver", "read NCCL's WARN lines of each rank (NCCL_DEBUG=WARN): mostly the GPU is full or another process holds it (nvidia-smi), or peer access fails", "known"),
    Signature("S131", "nccl-system-error", GENERAL,
              r"ncclInvalidUsage|ncclInvalidArgument|NCCL error.{0,200}invalid (?:usage|argument)|NCCL [Ee]rror [45]\b|NCCL WARN (?:Invalid rank requested|Error : corrupted comm|\w+ : (?:invalid |.{0,40} is not a valid pointer|.{0,30}argument is NULL))",
              "NCCL was called in a way that it does not take: two ranks on one GPU, a tensor of another GPU, or ranks that do not call the same",
              "NCCL_DEBUG=WARN names the call; torch.cuda.set_device(LOCAL_RANK) before init_process_group; as many ranks as GPUs", "run"),
    Signature("S55", "nccl-system-error", GENERAL,
              r"unhandled system error|NCCL INFO (?:init|group)\.cc:\d+ -> [23]\b|ncclSystemError|ncclInternalError|NCCL error.{0,200}internal error|Test NCCL failure.{0,80}(?:internal|system) error"
              r"|NCCL [Ee]rror [23]\b|System call \((?:socket|e\.g\. socket)",
              "a socket, shared memory or network interface failed NCCL",
              "read NCCL's WARN lines of each rank (NCCL_DEBUG=WARN): mostly no room in /dev/shm (docker run --ipc=host), or an interface that leads nowhere (NCCL_SOCKET_IFNAME=IF)", "thread"),
    Signature("S54", "nccl-timeout-watchdog", GENERAL,
              r"are waiting for remainder of ranks for more than|\bOne or more rank \(marked by \"!\"\) is stalled for longer|Watchdog caught collective operation timeout|^Exception raised from ncclCommWatchdog |Expected \d+ threads to join the rendezvous, but (?:not all|only \d)|This thread has been waiting for .{0,400}may be stuck|[Ww]atchdog got stuck for \d+ seconds|Heartbeat monitor timed out|Terminating the process after attempting to dump debug info"
              r"|Notify register times out|reason=\[stream sync timeout\]|Getting socket times out\. Reason: |Some NCCL operations have failed or timed out|Timed out waiting \d+ms for (?:recv|send) operation|gloo/transport/\S{1,60}\] Timed out waiting \d|ran for \d+ milliseconds before timing out"
              r"|Observed flight recorder dump signal|collective operation timeout|NCCL watchdog .{0,40}time-?out|NCCL (?:operation|collective)s? timed out|First PG on this rank to signal dumping"
              r"|Received a dump signal (?:due to|from)|Work\w+ ?\(?\w*=?\w*\)? .{0,120}timed out in blocking wait|Caught collective operation timeout"
              r"|monitoredBarrier after \d+ms|Application timeout caused pair closure|HeartBeat timeout|Barrier timed out\. (?:Barrier_id|Id): (?!\S*(?:[Cc]onnect|register))|Watchdog .{0,40}(?:is stuck|hang detected)|DeepEP (?:error: )?timeout",
              "a rank hung, died, skipped a collective or is slow; the others waited for it",
              "read the log of the rank that did not report: it failed, or does alone what all must do (saving, evaluation, a download under `if rank == 0`);"
              " while it hangs, py-spy dump --pid PID, or gpulaunch stacks RUN, shows what each rank executes. A longer time-out helps only where that work is really so long", "thread"),
    Signature("S57", "nccl-network", VICTIM,
              r"ncclRemoteError|\[WinError 100(?:53|54)\]|\b(?:ORTE|PRTE) has lost communication with a remote daemon|errors_impl\.UnavailableError: |XlaRuntimeError: UNAVAILABLE: (?!.{0,200}(?:TPU|backend))|successfully reached monitoredBarrier, but received errors|NCCL INFO (?:init|group)\.cc:\d+ -> 6\b|Connection closed by (?:remote )?peer|Connection reset by (?:remote )?peer|NCCL communicator (?:was|encountered|has been) (?:aborted|error)"
              r"|recvValue failed|sendBytes failed|recvVector failed|sendVector failed|(?<! to - \[Errno 32\] )Broken pipe|BrokenPipeError|socketProgress: Connection closed|ConnectionResetError|remote process has been terminated"
              r"|Connection was likely closed|NCCL WARN Net : Connection closed|store server (?:is|was) (?:shut|gone)|NCCL operations? .{0,20}aborted|remote process exited or there was a network error"
              r"|read: Connection reset|failed to recv, got 0 bytes|Could not receive type from buffer|writeBuffer failed|peer process has unexpectedly disconnected|heartbeat timeout\. This indicates that the remote task|stopped sending heartbeats|JAX distributed service detected fatal errors|coordinator detected missing heartbeats|Process group watchdog thread terminated|Aborting (?:due to|communicator)|^\[ring\] (?:Too many send/recv errors|(?:Receiving from|Sending to) socket \d+ failed)",
              "the other side was gone", "find the first error in the logs of the other ranks; where they have none, sudo dmesg -T | grep -i -E 'oom|xid' on their hosts", "source"),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S58", r"libnccl\.so\S*: cannot open", "the file of NCCL is not where torch, vLLM or the loader looks for it", "install the NCCL that torch requires (python -m pip install nvidia-nccl-cu12, or -cu13); vLLM loads another file by VLLM_NCCL_SO_PATH=FILE", "python -c \"import importlib.metadata as m; print([r for r in m.requires('torch') if 'nccl' in r])\""),
    Advice("S58", r"undefined symbol|symbol lookup error", "torch or another library met an NCCL that is older than the one it was built with", "unset LD_LIBRARY_PATH where it leads to a system's NCCL, else install the nvidia-nccl-cuNN that torch requires (another package has replaced it)", "python -c \"import importlib.metadata as m; print([r for r in m.requires('torch') if 'nccl' in r])\""),
    Advice("S58", "", command="gpulaunch preflight HOSTS compares torch and NCCL of all hosts"),
    Advice("S63", r"peer mapping|TooManyPeers", "one process opens peer-to-peer access to more than eight other GPUs", "start one process per GPU (torchrun, gpulaunch run) in place of nn.DataParallel or device_map over all of them", ""),
    Advice("S63", r"RTX \d000 series", "", "set both variables for every rank, or start it with accelerate launch or gpulaunch run: these GPUs have no such paths to lose", "export NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1"),
    Advice("S63", "", command="export NCCL_P2P_DISABLE=1"),
    Advice("S66", r"NET plugin", command="unset NCCL_NET NCCL_NET_PLUGIN: the network that they name is not on this host"),
    Advice("S66", r"Too many open", "NCCL reached the limit of open files", "ulimit -n 65536 before the launch, on every host", "ulimit -n 65536"),
    Advice("S66", r"pthread_create", "NCCL could start no thread: the limit of processes and threads is reached", "ulimit -u and cat /sys/fs/cgroup/pids.max show the limits; fewer DataLoader workers, docker run --pids-limit=-1", "ulimit -u; cat /sys/fs/cgroup/pids.max"),
    Advice("S66", r"cuMem\w+ failed", "NCCL could not share GPU memory by CUDA's virtual memory (cuMem), as in some containers", "NCCL_CUMEM_ENABLE=0 takes the older way; docker run with --ipc=host and --cap-add SYS_NICE, or a newer driver, keeps this one", "export NCCL_CUMEM_ENABLE=0"),
    Advice("S66", r"Unable to resolve hostname", "Gloo looks up the host's own name, which has no address", "GLOO_SOCKET_IFNAME=IF for every rank, or add the host's name to its /etc/hosts", 'getent hosts "$(hostname)"'),
    Advice("S66", "", command="ip -br addr on every host: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME must name an interface of the list, or be unset"),
    Advice("S62", r"DDP expects same|same param (?:across|in process)|verify_params_across|inconsistent \d+ params|inadequate shapes|DistributedOperationException|Shapes across devices|[Ww]orld[ _]?[Ss]ize times|times [Ww]orld[ _]?size|invalid tensor|Detected mismatch|onitored ?[Bb]arrier", command=""),
    Advice("S62", "", command="export TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    Advice("S62", r"[Uu]neven inputs", "", "with model.join(): around the loop (DDP), or a DistributedSampler with drop_last=True"),
    Advice("S62", r"DDP expects same|same param (?:across|in process)|verify_params_across|inconsistent \d+ params", "the ranks built models that differ", "print [(n, p.shape) for n, p in model.named_parameters()] on each rank and compare: a config, a tokenizer's size, a file on one host, or a branch by rank differs"),
    Advice("S62", r"inadequate shapes|DistributedOperationException|Shapes across devices", "", "accelerator.pad_across_processes(x, dim=1) before the gather, with dim the one that differs below"),
    Advice("S62", r"[Ww]orld[ _]?[Ss]ize times|times [Ww]orld[ _]?size|ProcessGroup\w+::\w+: invalid tensor", "the call's output does not fit its input", "an output of all_gather_into_tensor has world_size times the elements of its input, an input of reduce_scatter_tensor those of its output; pad shards of other lengths"),
    Advice("S62", r"Detected mismatch between", "", "look for what rank decides before the two calls that the message names (if rank == 0, an early break, an evaluation on some ranks), and for loaders of other lengths"),
    Advice("S62", r"onitored ?[Bb]arrier", "", "read the logs of the ranks that the message names: they did not come so far"),
    Advice("S67", r"(?i)nvshmem|mlx5dv_devx", "NVSHMEM (of DeepEP) could not set up its queue pairs over InfiniBand or RoCE: a wrong NIC or GID, a driver without what IBGDA needs, or hosts that do not reach each other",
           "NVSHMEM_HCA_LIST and, for RoCE, NVSHMEM_IB_GID_INDEX as show_gids says, for every rank; the driver's options PeerMappingOverride=1 and NVreg_EnableStreamMemOPs=1 on every host; ib_write_bw between the two hosts shows the link",
           "export NVSHMEM_DEBUG=WARN; NVSHMEM_IB_ENABLE_IBGDA=0 takes the path that needs no options of the driver (PeerMappingOverride=1)"),
    Advice("S67", r"[Gg]loo", command="ip -br addr names the interfaces: GLOO_SOCKET_IFNAME=IF on every host"),
    Advice("S67", r"Cannot allocate memory", "InfiniBand may not lock the memory that it needs", "ulimit -l unlimited for every rank: memlock in /etc/security/limits.conf, docker run --ulimit memlock=-1, LimitMEMLOCK of slurmd", "ulimit -l unlimited (docker run --ulimit memlock=-1) on every host"),
    Advice("S67", r"NET/OFI|nccl_net_ofi|\bfi_[a-z]", "", "fi_info -p efa must list the devices on every host: a security group that allows all traffic to itself, the EFA driver, and an aws-ofi-nccl for this NCCL", "fi_info -p efa"),
    Advice("S67", r"NET/IB|\bibv?_|mlx5|IBV_WC|InfiniBand|RDMA|transport retry", "InfiniBand or RoCE does not carry NCCL's traffic: a link that is down, a wrong GID, or ports that do not reach each other",
           "ibstat on both hosts: repair a port that is down, or leave it out (NCCL_IB_HCA=^mlx5_N); RoCE: NCCL_IB_GID_INDEX as show_gids says. NCCL_IB_DISABLE=1 only shows whether that is it: sockets are many times slower", "ibstat; show_gids"),
    Advice("S67", r"[Cc]onnect|[Ss]ocket", command="ip -br addr on both hosts; export NCCL_SOCKET_IFNAME=IF with the interface of the main address (docker0, usb0 and lo lead nowhere)"),
    Advice("S26", "", command="gradient_checkpointing_kwargs={'use_reentrant': False}"),
    Advice("S61", "", command="export TORCH_DISTRIBUTED_DEBUG=INFO"),
    Advice("S102", r"ReduceOp\.AVG", "", "ReduceOp.SUM, and then divide by dist.get_world_size(): NCCL alone has AVG"),
    Advice("S102", r"No algorithm/protocol available", "NCCL_ALGO or NCCL_PROTO leaves NCCL no way for this call", "unset NCCL_ALGO NCCL_PROTO for every rank", "unset NCCL_ALGO NCCL_PROTO"),
    Advice("S102", r"NCCL built in", command="init_process_group('gloo'), or run it on Linux (WSL): torch for Windows and macOS has no NCCL"),
    Advice("S102", r"No backend type associated", "a collective got a tensor of a kind of device for which the process group has no back end (FSDP with CPU offload, state dicts, metrics)", "init_process_group('cpu:gloo,cuda:nccl'), or x.cuda() before the call"),
    Advice("S102", r"NCCL process group|Invalid scalar type|[Ff]loat8|FP8", "", "convert the tensor before the call and back behind it: .float(), .to(torch.int32), or view(torch.uint8) for float8 that is only moved"),
    Advice("S112", r"--ntasks", "the tasks of the Slurm job and the Trainer's devices differ", "#SBATCH --ntasks-per-node=N with the N of devices= (a task for each GPU), --nodes as num_nodes=, no --ntasks; and srun python SCRIPT"),
    Advice("S112", r"larger than the number of (?:available )?GPUs", "", "tensor_parallel_size x pipeline_parallel_size of at most the GPUs that the process sees; vLLM over several hosts wants Ray (--distributed-executor-backend ray)"),
    Advice("S56", r"\b[Nn][Vv][Ll][Ss]\b|nvls\.cc|multicast", command="export NCCL_NVLS_ENABLE=0"),
    Advice("S56", r"transport/\w+\.cc:\d+ NCCL WARN Cuda failure (?:101|800)\b", "NCCL could not open the memory of a GPU of another host over NVLink (MNNVL): this process has no IMEX channel, or the host's IMEX daemon does not run", "/dev/nvidia-caps-imex-channels/channel0 in every container (Kubernetes: a ComputeDomain of the DRA driver), and nvidia-imex on all hosts; NCCL_MNNVL_ENABLE=0 goes over the network in its place", "ls -l /dev/nvidia-caps-imex-channels; systemctl status nvidia-imex"),
    Advice("S56", r"Cuda failure 1 'invalid argument'", command="export NCCL_CUMEM_ENABLE=0"),
    Advice("S56", r"NCCL WARN", command=""),
    Advice("S56", "", command="export NCCL_DEBUG=WARN"),
    Advice("S55 S131", r"NCCL WARN|/dev/shm", command=""),
    Advice("S55 S131", "", command="export NCCL_DEBUG=WARN"),
    Advice("S55", r"dev/shm", "", "docker run --ipc=host (or --shm-size=16g): NCCL found no room in /dev/shm"),
    Advice("S54", r"remainder of ranks", "", "the list below it names the ranks that are missing, or the tensors that each still waits for: read those ranks' logs; they failed, skip a step that the others make, or do alone what all must do"),
    Advice("S54", r"Barrier timed out", "some of JAX's processes did not come to a barrier that the others reached: they failed before it, or are at another place", "read the logs of the tasks that the message lists"),
    Advice("S54", r"Stall inspector", "", "read the logs of the ranks that the lines about missing ranks name: they did not come to that tensor"),
    Advice("S54", r"HCCL|Notify register times out|Getting socket times out|stream sync timeout", "", "read ~/ascend/log (plog) of the remote rank that it names: it failed, or is behind; HCCL_CONNECT_TIMEOUT=SECONDS helps only where hosts start that far apart"),
    Advice("S54", r"watchdog got stuck|watchdog hang|Heartbeat monitor timed out", "the rank's watchdog made no progress: a CUDA or NCCL call of this rank hangs, or a thread keeps Python's lock",
           "sudo dmesg -T | grep -i xid on its host, and gpulaunch stacks RUN while it hangs; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only waits longer"),
)  # fmt: skip
