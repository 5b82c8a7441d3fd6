"""Ports, names, rendezvous: advice by the words of a log."""

from preflight.diagnosis.advice.model import Advice

ROWS: tuple[Advice, ...] = (
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
    Advice("S52", r"\d+/\d+ clients joined", "", "start those that did not join, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and read their logs; gpulaunch preflight HOSTS says which host cannot reach the main one"),
    Advice("S118", r"gloo device", command="python -m pip install 'torch>=2.10' --index-url URL"),
    Advice("S103", r"group is not initialized", "Megatron's parallel groups were not made in this process, or in another copy of the module", "parallel_state.initialize_model_parallel(...) behind init_process_group, by the same import path that the model uses (megatron.core, not a copy beside it)"),
    Advice("S103", r"process group twice", "init_process_group ran twice in one process: accelerate, Trainer, Lightning and DeepSpeed call it, too", "if not dist.is_initialized(): dist.init_process_group(...), or take out the script's own"),
    Advice("S103", r"accelerate state", "accelerate's logger or state is used before it is set up", "PartialState() (or Accelerator()) before the first message of accelerate's logger"),
    Advice("S103", r"environment variable \w+ expected|parameter missing|^KeyError", "the script was started without a launcher, which gives each rank its number", "torchrun --nproc_per_node N SCRIPT (1 for a lone process), or gpulaunch run SCRIPT; both set RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"),
    Advice("S64", r"resolve hostname", command="getent hosts HOST; ssh -G HOST shows what ~/.ssh/config makes of it"),
    Advice("S64", r"Host key verification failed|IDENTIFICATION HAS CHANGED", "this machine does not know the host's SSH key, or knows another one", "connect once by hand and compare the key: ssh HOST true; where its administrator says that it is new, ssh-keygen -R HOST removes the old one"),
    Advice("S64", r"(?<!socket: )Permission denied", command="ssh-copy-id USER@HOST; ssh -v HOST true shows which keys it tries"),
    Advice("S64", r"^pdsh@", "pdsh starts the hosts by another program than ssh, or cannot reach them", "PDSH_RCMD_TYPE=ssh for DeepSpeed's launcher, and ssh HOST true must work without a password", "export PDSH_RCMD_TYPE=ssh"),
    Advice("S64", r"exchange_identification|during banner exchange", "", "fewer connections at once, or a larger MaxStartups in the host's /etc/ssh/sshd_config; its journalctl -u ssh says why it refused"),
)  # fmt: skip
