"""Programs beside a launch, as tables: what shows, installs, copies, ends or changes something."""

from collections.abc import Mapping

from launcher.engines.command_line.tables.names import as_names

OF_SHELL = "of the shell that it was written for"
NOTHING = "starts nothing"
BEFORE = "it comes before the launch: do it on each host first, where it is still to be done"
_LIMITS = "limits are those of each host; preflight checks them"
MODULES = "of this machine only; variables for the ranks go into env:, the interpreter into python:"
_SHOWS = as_names(
    "echo printf pwd date hostname clear true : nvidia-smi which type ls whoami uname free df env printenv"
    " sleep nvcc lscpu jobs disown wait exit return logout realpath readlink basename dirname nproc id stat"
    " du tree uptime lspci lsb_release lsblk ifconfig ip netstat ss lsof tput ibstat ibstatus ibhosts"
    " iblinkinfo ibdev2netdev ofed_info rdma show_gids ibv_devinfo ibv_devices rocm-smi rocminfo amd-smi"
    " hy-smi npu-smi xpu-smi lstopo lsmod lshw numastat vmstat iostat dmesg ldd getconf getent groups last"
    " history hash stty reset sync ping dig nslookup nc traceroute neofetch figlet banner notify-send sstat"
    " qstat bjobs hostnamectl sacct quota dir pgrep pidof mountpoint pygmentize bat batcat more most glow"
)
"""Programs that show or wait for something, whatever follows."""

DROPPED: Mapping[str, str] = {
    **dict.fromkeys(_SHOWS, NOTHING),
    **dict.fromkeys(("set", "shift", "shopt", "trap", "alias", "unalias", "setopt", "complete"), OF_SHELL),
    "mkdir": "make it on each host, where the script does not itself",
    "wandb": "of this machine only; WANDB_MODE and WANDB_API_KEY go into env:",
    **dict.fromkeys(("ulimit", "umask"), _LIMITS),
    **dict.fromkeys(("module", "ml", "spack", "nvm", "direnv"), MODULES),
    "deactivate": OF_SHELL,
    "tensorboard": "reads what a training writes, and starts none",
}
"""Programs without an effect on hosts, with what is said of each."""

SETUP = frozenset(
    as_names(
        "pip pip3 pipx apt apt-get yum dnf brew npm git git-lfs gh wget curl aria2c unzip tar gunzip gzip"
        " rm cp mv ln chmod chown touch envsubst jq sort md5sum sha256sum zip 7z sed awk find rsync"
        " scp gdown aws gsutil azcopy kaggle vim vi nano emacs code virtualenv pkill kill killall ps top"
        " htop cat tail less head tr wc cut uniq column nl paste fold tac rev diff cmp hexdump xxd od"
        " ssh-keygen ssh-copy-id systemctl service scontrol sinfo squeue scancel huggingface-cli cmake"
        " cd export dpkg modprobe ninja jupyter yq perl tee hdfs hadoop sacctmgr reboot ds_report ldconfig"
        " sshd mktemp del erase xcopy robocopy sysctl mount umount swapoff swapon renice fuser sbcast xhost"
        " ssh-add crontab nvidia-cuda-mps-control nvidia-persistenced shutdown poweroff insmod useradd"
        " truncate split install patch rclone s5cmd lfs dd fallocate iptables ruff mypy black isort flake8"
        " pylint pyright yapf pre-commit mkdocs sphinx-build shellcheck twine grep egrep fgrep zgrep rg"
    )
)
"""Programs that install, download, copy, show or end something, whatever follows."""

PROBES = frozenset(
    as_names("grep egrep fgrep zgrep rg pgrep pidof diff cmp which type hash ping nc getent mountpoint")
)
"""Programs that are started for their answer: of any other, a text presumes that it succeeds."""

BUILDERS = ("make", "ninja", "gmake")
SETUP_PARTS = {
    "uv": ("pip", "sync", "venv", "add", "lock", "python", "init", "remove"),
    "conda": ("create", "install", "env", "update", "init", "config", "remove", "clean", "list", "info"),
    "poetry": ("install", "add", "lock", "shell", "env", "update"),
    "pixi": ("install", "add", "init", "lock", "update", "shell", "clean", "info", "list", "global"),
    "pdm": ("install", "sync", "add", "lock", "init", "update", "use"),
    "pipenv": ("install", "sync", "lock", "shell", "update"),
    "mise": ("install", "use", "trust"),
    "docker": ("build", "pull", "push", "login", "tag", "images", "ps", "rm", "stop", "volume", "network"),
    "tune": ("download", "ls", "cp", "validate", "cat"),
    "axolotl": as_names(
        "fetch vllm-serve delinearize-llama4 inference merge-lora merge-sharded-fsdp-weights"
    ),
    "litgpt": as_names("download convert_to_litgpt convert_from_litgpt merge_lora chat generate serve"),
    "llamafactory-cli": as_names("api chat env export version webchat webui"),
    "vllm": ("serve", "chat", "complete"),
    "trl": ("vllm-serve", "env", "chat"),
    "enroot": ("import", "create", "remove", "list"),
    "modelscope": ("download", "login"),
    "dvc": ("checkout", "fetch", "pull"),
    "ollama": ("pull",),
    "hf": as_names(
        "auth buckets cache collections datasets discussions download env login models papers repo repo-files"
        " repos spaces sync upload upload-large-folder version whoami"
    ),
    "dcgmi": ("profile",),
    "ray": ("start", "stop", "status"),
    "gcloud": ("auth", "builds", "config", "init", "storage"),
    "az": ("account", "acr", "extension", "login", "storage"),
}
SETUP_PARTS["rye"] = SETUP_PARTS["pdm"]
SETUP_PARTS["apptainer"] = SETUP_PARTS["singularity"] = as_names("build pull push inspect cache remote")
SETUP_PARTS["podman"] = SETUP_PARTS["docker"]
SETUP_PARTS["mamba"] = SETUP_PARTS["micromamba"] = SETUP_PARTS["conda"]
STARTING = (["wandb", "agent"], ["direnv", "exec"])
"""Commands that start a program, of programs that only prepare one."""

SETUP_MODULES = (("pip",), ("venv",), ("ensurepip",), ("build",), ("nltk.downloader",), ("http.server",))
SETUP_COMMANDS = (("spacy", "download"), ("ipykernel", "install"), ("playwright", "install"))
"""Of `python -m`."""

SETTINGS: Mapping[tuple[str, ...], str] = {
    ("accelerate", "config"): "the launch reads the settings that it has written on this machine",
    ("accelerate", "env"): NOTHING,
    ("accelerate", "test"): NOTHING,
    ("huggingface-cli", "login"): BEFORE,
    ("hf", "auth", "login"): BEFORE,
    ("hf", "login"): BEFORE,
    **dict.fromkeys(
        (("mlflow", "ui"), ("mlflow", "server")), "reads what a training writes, and starts none"
    ),
}
"""Programs that ask for settings or a login, with what is said of each."""

GPU_SETTINGS = frozenset(
    as_names(
        "-pm -c -pl -lgc -rgc -lmc -rmc -ac -rac -e -mig -r -am --persistence-mode --compute-mode"
        " --power-limit --lock-gpu-clocks --gpu-reset --applications-clocks --ecc-config"
        " --multi-instance-gpu mig --lock-memory-clocks"
    )
)
"""Words of nvidia-smi that change a GPU; all others show something."""

SHELL_HOOKS = as_names("hook ssh-agent shellenv dircolors lesspipe starship register-python-argcomplete")
"""Parts of `eval "$(PROGRAM)"` that set up a shell of this machine."""
