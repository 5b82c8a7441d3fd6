"""Ports, rendezvous, SSH: how ranks meet."""

from preflight.diagnosis.signatures.model import GENERAL, ROOT, VICTIM, Advice, Signature

ROWS: tuple[Signature, ...] = (
    Signature("S121", "port-in-use", ROOT,
              r"TensorBoard (?:could not bind|attempted to bind) to port|Cannot find empty port in range|Port \d+ is in use by another program",
              "a port of a tool beside the ranks (TensorBoard, a notebook, a dashboard) is taken; the main port is not meant",
              "give that tool another port, or end its earlier process", "source"),
    Signature("S50", "port-in-use", ROOT,
              r"EADDRINUSE|^(?!.{0,160}NCCL WARN).*[Aa]ddress already in use|Port .?\d+.? is (?:already )?(?:in use|taken|occupied|being used)|[Ee]rrno:? ?\[?98\b|\[Errno 98\]"
              r"|Tried to launch distributed communication on port|server socket has failed to (?:bind|listen) to \S+ \(errno: (?!97)"
              r"|failed to listen on any local network address|[Pp]ort \d+ (?:already in use|is not available|is in use)|WSAEADDRINUSE|\[WinError 10048\]|[Ee]rrno 48\]"
              r"|only one usage of each socket address|Only one usage of each socket address",
              "the main port is taken, often by a leftover or another job",
              "take another port (torchrun --master-port N, accelerate launch --main_process_port N, a server's own --port), or end the process that"
              " holds it: gpulaunch clean-zombies HOSTS ends leftovers; gpulaunch run takes a free port automatically", "run"),
    Signature("S51", "rendezvous-timeout", ROOT,
              r"client socket has (?:timed out after|failed to connect to any)|connection to the C10d store has failed"
              r"|TCP client failed to connect/validate to host|connect\(\) timed out|RendezvousConnectionError"
              r"|client socket has failed to connect to .{0,200}errno: (?:110|113|101|99)\b|IPv[46] network addresses of \(.{0,80}\) cannot be retrieved"
              r"|The connection to the etcd .{0,40}(?:failed|refused)|host not found: Name or service|Failed to (?:connect to|resolve) (?:the )?(?:master|MASTER_ADDR|rendezvous)"
              r"|Failed to (?:connect to|get cluster ID from) GCS|ConnectionError: (?:Failed to connect to Ray at address|Could not find any running Ray instance)|[Uu]nable to connect to (?:GCS|Redis)|[Cc]ould not connect to Redis|\betcd\.EtcdConnectionFailed|waiting for GCS to become available|hostname \S+ (?:could not|cannot) be resolved",
              "the main host cannot be reached on the main port: wrong address, firewall, or rank 0 is not up",
              "gpulaunch preflight HOSTS connects from every node to the main host and says which cannot", "run"),
    # Above S52: its words are those of other stores, too.
    Signature("S49", "rendezvous-timeout", GENERAL,
              r"RendezvousError\b|retrieving ncclUniqueId from (?!.{0,300}got error: (?:Connection (?:reset|closed)|Broken pipe|failed to recv)).{0,300}(?:timed out|[Tt]imeout|got error)|^(?:RuntimeError: )?Socket Timeout|client socket has failed to connect to .{0,200}Connection refused|failed to connect to .{0,120}(?:29\d\d\d|MASTER)"
              r".{0,60}(?:timed out|refused)",
              "the ranks did not find each other", "gpulaunch preflight HOSTS; compare MASTER_ADDR, MASTER_PORT and the number of nodes",
              "source"),
    Signature("S52", "rendezvous-timeout", ROOT,
              r"RendezvousTimeoutError|\bWait timeout for key\(s\)|backend initialization is taking more than [\d.]+ seconds|Timed out (?:after \d+ \w+ )?waiting for clients|\d+/\d+ clients joined"
              r"|store->get\(.{0,40}\).{0,40}(?:timed out|timeout|got error(?!: (?:Connection (?:reset|closed)|Broken pipe|failed to recv)))|DistStoreError: Socket Timeout|wait timeout after \d+ms, keys:"
              r"|[Tt]imed out initializing process group in store based barrier|RendezvousClosedError|RendezvousStateError|RendezvousGracefulExitError"
              r"|Rendezvous(?:Handler)?\S* (?:timed out|timeout|failed)|The rendezvous .{0,80}(?:timed out|has been closed|failed)|rendezvous (?:timeout|timed out)"
              r"|[Ww]aiting for (?:all )?(?:nodes|workers|peers|ranks) .{0,40}timed out|barrier timed out(?! in 0 )|Timed out waiting for \S* ?rendezvous"
              r"|store_util\.barrier|TCPStore\S* .{0,80}(?:timed out|Timeout)|timed out in monitoredBarrier|Exit barrier timed out"
              r"|DistStoreError: Timed out|Stop_waiting response is expected|Failed to get global TPU topology|[Tt]imed out waiting (?:for|on) (?:other )?(?:nodes|agents|workers|hosts)|[Tt]imed out after waiting \S+ for .{0,40}\breplicas?\b|LookupError: Timeout while waiting for keys in EtcdStore"
              r"|waiting for key.{0,60}(?:timed out|timeout)|gloo.{0,120}rendezvous.{0,60}[Tt]imeout|DEADLINE_EXCEEDED: Barrier timed out(?!\. (?:Barrier_id|Id): (?!\S*(?:[Cc]onnect|register)))|[Cc]oordination service as cluster registration failed|Coordination service agent in error status: DEADLINE_EXCEEDED",
              "a node never joined: its launch failed, or the number of nodes is wrong",
              "read the log of the node or rank that is missing; --nnodes and --rdzv-endpoint (MASTER_ADDR, MASTER_PORT, WORLD_SIZE) must be alike on all;"
              " gpulaunch preflight HOSTS says which host cannot reach the main one", "run"),
    Signature("S118", "process-group", ROOT, r"use_libuv was requested but PyTorch was buil[dt] without libuv|unsupported gloo device",
              "this build of torch (for Windows) has no libuv, by which its ranks reach each other: the store by default, Gloo always",
              "set USE_LIBUV=0 before the launch, where the store asks for it; Gloo wants torch 2.10 or newer (2.7 to 2.9 for Windows lack it) or WSL; a single GPU needs neither", "source"),
    Signature("S103", "process-group", ROOT,
              r"Default process group has not been initialized|initialize the default process group twice|You must initialize the accelerate state|\b(?:parallel|data|tensor|pipeline|context|expert)\w* (?:parallel )?group is not initialized|rendezvous: environment variable \w+ expected|rendezvous: (?:rank|world size) parameter missing|No rendezvous handler for"
              r"|^KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
              "torch.distributed was used where it is not set up: the script was started without a launcher, before init_process_group"
              " or behind destroy_process_group, or it set it up twice",
              "gpulaunch run SCRIPT sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT on every rank, on a lone one"
              " of a script with accelerate only with --set engine=torchrun; one init_process_group before the first collective, under `if not dist.is_initialized()`", "source"),
    Signature("S64", "ssh-access", ROOT,
              r"Permission denied \((?:publickey|password|gssapi|keyboard)|Host key verification failed|ssh: Could not resolve hostname"
              r"|was not reachable via ssh|ssh exited with exit code 255|Command '\[?'?ssh\b.{1,300} returned non-zero exit status 255\b|ssh: connect to host \S+ port \d+: |(?:kex|ssh)_exchange_identification|\bConnection (?:timed out|closed by \S{1,80}) during banner exchange|\bConnection closed by \S{1,80} port 22\b|^pdsh@\S{1,80}: \S{1,80}: (?:mcmd|rcmd): |^Permission denied, please try again|REMOTE HOST IDENTIFICATION HAS CHANGED",
              "SSH or the name lookup failed", "repair access first: ssh -o BatchMode=yes HOST true must succeed from the machine that starts the run, without a password", "known"),
    Signature("S59", "nccl-network", VICTIM, r"(?<!\d\. )(?<!new connection: \[Errno 111\] )Connection refused|(?<!new connection: \[Errno 113\] )No route to host|(?<!new connection: \[Errno 101\] )Network is unreachable|(?<!new connection: \[Errno 110\] )Connection timed out|\[WinError 100(?:51|60|61|65)\]",
              "no process listens on it, or a firewall is in between", "gpulaunch preflight HOSTS", "known", definitive=False),
)  # fmt: skip

ADVICE: tuple[Advice, ...] = (
    Advice("S121", r"[Tt]ensor[Bb]oard", command="tensorboard --logdir DIR --port 0 takes a free one"),
    Advice("S50", r"(?i)vllm|uvicorn|attempting to bind on address|\bray\b|gradio", "the port of a server is taken", "give the server another port (--port), or end the one that holds it: an earlier one often outlives its terminal"),
    Advice("S51", r"gai error|cannot be retrieved|(?:could not|cannot) be resolved|host not found", "this host cannot resolve the main host's name", "add it to /etc/hosts on every host, or give its address (MASTER_ADDR, --rdzv-endpoint): getent hosts NAME must answer on each"),
    Advice("S51", r"Ray at address: https?:", "no dashboard of Ray, which takes jobs, answers at that address: Ray is not up, or was installed without it", "ray start --head --dashboard-host=0.0.0.0 on the head, with python -m pip install 'ray[default]'; ray job submit --address http://HEAD:8265", "ray status"),
    Advice("S51", r"running Ray instance|Ray at address", "no Ray runs on this host, or at the address that is asked", "ray start --head --port=6379 on the first host, ray start --address=HEAD:6379 on the others; without several hosts ray.init() alone starts one, with RAY_ADDRESS unset", "ray status"),
    Advice("S51", r"\bGCS\b|Redis", "Ray's head does not answer: it is not up, at another address, or behind a firewall", "ray status on the head must answer; else ray stop, ray start --head --port=6379 on it, and ray start --address=HEAD:6379 on the others, with the same Ray and Python"),
    Advice("S51", r"\(0\.0\.0\.0, \d+\)|\bto (?:host )?0\.0\.0\.0:\d+", "nothing answers at that port of this host: 0.0.0.0 is where a server listens, and as an address to connect to it is the host itself", "on that host the log of the server or of rank 0 says why it is not up; from another host give its name or address"),
    Advice("S51", r"\[Errno 99\]", "the address to listen at or to connect from is none of this host's", "ip -br addr lists this host's addresses: MASTER_ADDR belongs to the host of rank 0, and a server's --host to its own (0.0.0.0 listens at all)"),
    Advice("S52", r"RendezvousClosedError|has been closed|RendezvousGracefulExit|Stop_waiting", "the rendezvous is over: a node failed or finished, and closed it for all", "read the log of the node that ended first, then start all nodes anew with a new --rdzv-id; gpulaunch run stops and starts them together"),
    Advice("S49", r"retrieving ncclUniqueId from", "the rank that gives out NCCL's id (0 of that group) did not come to this collective in time: it had ended, or still did something else", "read rank 0's log first: its exception or exit is the cause; a long step that rank 0 does alone (a download, preprocessing, saving) needs a longer timeout in init_process_group or --ddp_timeout"),
    Advice("S52", r"TPU topology", "the other hosts of this TPU slice do not run the program, and a slice starts on all of its hosts at once", "start it on every host of the slice (gcloud compute tpus tpu-vm ssh NAME --worker=all --command=...); for this host alone TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=0"),
    Advice("S52", r"\d+/\d+ clients joined", "", "start those that did not join, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and read their logs; gpulaunch preflight HOSTS says which host cannot reach the main one"),
    Advice("S118", r"gloo device", command="python -m pip install 'torch>=2.10' --index-url URL"),
    Advice("S103", r"group is not initialized", "Megatron's parallel groups were not made in this process, or in another copy of the module", "parallel_state.initialize_model_parallel(...) behind init_process_group, by the same import path that the model uses (megatron.core, not a copy beside it)"),
    Advice("S103", r"process group twice", "init_process_group ran twice in one process: accelerate, Trainer, Lightning and DeepSpeed call it, too", "if not dist.is_initialized(): dist.init_process_group(...), or take out the script's own"),
    Advice("S103", r"accelerate state", "accelerate's logger or state is used before it is set up", "PartialState() (or Accelerator()) before the first message of accelerate's logger"),
    Advice("S103", r"environment variable \w+ expected|parameter missing|^KeyError", "the script was started without a launcher, which gives each rank its number", "torchrun --nproc_per_node N SCRIPT (1 for a lone process), or gpulaunch run SCRIPT; both set RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"),
    Advice("S64", r"resolve hostname", command="getent hosts HOST; ssh -G HOST shows what ~/.ssh/config makes of it"),
    Advice("S64", r"Host key verification failed|IDENTIFICATION HAS CHANGED", "this machine does not know the host's SSH key, or knows another one", "connect once by hand and compare the key: ssh HOST true; where its administrator says that it is new, ssh-keygen -R HOST removes the old one"),
    Advice("S64", r"Permission denied \((?:publickey|password|gssapi|keyboard)", "the host takes none of the SSH keys that this user offers", "put a key of the user who starts the run onto that host; ssh -o BatchMode=yes HOST true must succeed from the machine that starts it"),
    Advice("S64", r"(?<!socket: )Permission denied", command="ssh-copy-id USER@HOST; ssh -v HOST true shows which keys it tries"),
    Advice("S64", r"^pdsh@(?!.{0,160}: ssh exited)", "pdsh starts the hosts by another program than ssh, or cannot reach them", "PDSH_RCMD_TYPE=ssh for DeepSpeed's launcher, and ssh HOST true must work without a password", "export PDSH_RCMD_TYPE=ssh"),
    Advice("S64", r"exchange_identification|during banner exchange", "", "fewer connections at once, or a larger MaxStartups in the host's /etc/ssh/sshd_config; its journalctl -u ssh says why it refused"),
)  # fmt: skip
