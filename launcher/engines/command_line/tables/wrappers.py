"""Words around a command, as tables: environments, what only times or detaches, what is refused."""

from launcher.engines.command_line.tables.names import as_names

CONTAINERS = as_names(
    "docker podman nvidia-docker singularity apptainer enroot shifter ch-run kubectl oc nerdctl udocker"
    " docker-compose podman-compose podman-hpc apptainer_wrapper singularity_wrapper"
)
"""The last two are of CSC, around the container of a module."""

_CONTAINER = (
    "starts a container of its own, in which gpulaunch can verify no rank",
    "leave it out, and name the container of each host in hosts.yaml (via:)",
)
TO_HOSTS = ("pdsh", "pssh", "parallel-ssh", "clush", "mussh", "dsh", "ds_ssh")
_HOSTS = ("would start the command on hosts of its own", "leave it out, and write --hosts A,B")
REPEATERS = ("parallel", "xargs", "rush")
_REPEATS = (
    "starts the command once for each line or word that it gets",
    "launch one of these commands, with its words filled in; --gpus N and --hosts A,B say on what",
)
SCHEDULERS = as_names(
    "aprun jsrun lrun prun flux qsub bsub condor_submit oarsub dsub torchx sky runai modal ray gcloud ngc"
    " pbsdsh blaunch ibrun gantry spring.submit runpodctl vastai det mcli dstack volc eai beaker yhbatch"
    " msub jsub cqsub llsubmit hfai rlaunch clearml-task az arena dlc xpk polyaxon anyscale vh lep pyflyte"
    " helm ovhai hf ccc_mprun ccc_msub"
)
SCHEDULER = (
    "hands the command to a scheduler of its own, and gpulaunch starts processes itself",
    "leave it and its options out, and name the hosts with --hosts",
)
_PROFILERS = as_names(
    "nsys ncu nvprof rocprof compute-sanitizer cuda-memcheck cuda-gdb gdb valgrind strace ltrace perf"
    " py-spy austin scalene memray viztracer"
)
_PROFILER = (
    "would watch the launcher, and not the ranks",
    "leave it out, or start it in each rank: torchrun --no_python {name} ... python SCRIPT",
)
_OTHER_USER = ("it runs the training as another user", "leave it out, and name USER@HOST with --hosts")
_OF_WINDOWS = ("it is a shell that hosts do not have", "paste the command that is in its quotes")
_VARIABLES = (
    "it sets variables that gpulaunch cannot see",
    "leave it out, and write them into env: of a run config",
)

TASKS = {
    "pixi": "pixi.toml",
    **dict.fromkeys(("pdm", "hatch", "rye"), "pyproject.toml"),
    "pipenv": "the Pipfile",
}
"""Where tools have tasks, which `run` starts as it starts programs."""

OTHERS = ("env", "uvx", "eval", "cd")
RUNNERS = ("uv", "poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba", "micromamba")
"""Tools whose `run` starts a command in an environment."""

FLAGS = {
    "uv": as_names(
        "--frozen --locked --no-sync --active --exact --isolated --all-extras --no-dev -q --quiet -v"
        " --verbose --offline --no-project --no-config --dev --all-groups --no-default-groups"
        " --all-packages -n --no-cache --no-progress --no-editable"
    ),
    "conda": as_names("--no-capture-output --live-stream -v --verbose --debug-wrapper-scripts -s"),
    "poetry": as_names("-q --quiet -n --no-interaction --no-ansi -v"),
    "pixi": as_names("--frozen --locked --no-install --as-is -v -q -x --executable --clean-env"),
    "pdm": as_names("-s --site-packages --no-site-packages"),
    "pipenv": as_names("-q --quiet -v --verbose"),
}
"""Options of these tools without a value."""

VALUES = {
    "uv": as_names(
        "--extra --group --only-group --no-group --package --project --directory -p --env-file --python"
        " --index-url --default-index --index --no-extra -i --cache-dir --with -w --with-editable"
        " --with-requirements"
    ),
    "conda": as_names("-n --name -p --prefix --cwd -r --root-prefix -a --attach -e --env"),
    "poetry": as_names("-C --directory -P --project"),
    "pixi": as_names("-e --environment --manifest-path"),
    "pdm": as_names("-p --project --env-file"),
    "hatch": as_names("-e --env"),
}
"""Options of these tools with one value; `-e A=1` of micromamba sets a variable."""

INSTALLS = ("--with", "-w", "--with-editable", "--with-requirements")
"""Options of `uv run` that add packages to its environment for one command."""

SAME = {"mamba": "conda", "micromamba": "conda", "rye": "pipenv"}  # tools that take the options of another

_SAID_OF = {
    "a run continues without its client; --detach leaves at once": ("nohup", "setsid", "caffeinate"),
    "the report says how long the run took": ("time",),
    "gpulaunch starts one run at a time itself": ("flock",),
    "gpulaunch starts the processes itself": ("exec", "command", "coproc", "noglob", "nocorrect"),
    "python runs unbuffered in every rank": ("stdbuf", "unbuffer"),
    "it would bind all ranks of a host alike, and is left out": ("numactl", "taskset"),
    "it would end one host's launcher alone, and is left out; gpulaunch stop ends a run": ("timeout",),
    "the priority of processes and disks is left as it is": ("chrt", "ionice", "nice"),
}
TRANSPARENT = {name: f"{name}: {why}" for why, programs in _SAID_OF.items() for name in programs}
"""Programs that change nothing of a launch, with what is said of each."""

VALUE_FLAGS = {
    "exec": ("-a",),
    "time": ("-f", "-o"),
    "nice": ("-n",),
    "numactl": as_names(
        "-N -m -C -i -p -w -P --cpunodebind --membind --physcpubind --interleave --preferred"
        " --preferred-many --weighted-interleave"
    ),
    "ionice": ("-c", "-n"),
    "flock": ("-w", "--wait", "--timeout", "-E", "--conflict-exit-code"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "chrt": ("-T", "-P", "-D", "--sched-runtime", "--sched-period", "--sched-deadline"),
    "stdbuf": ("-i", "-o", "-e"),
}
"""Options of these programs with a value."""

OPERANDS = {"taskset": 1, "timeout": 1, "chrt": 1, "flock": 1}
"""How many words behind the options of these programs are their own: a mask, a duration, a file."""

BATCH_SUFFIXES = (".sbatch", ".slurm", ".sh", ".bash", ".job", ".sub")  # how the names of batch scripts end

REFUSED: dict[str, tuple[str, str]] = {
    "sudo": (
        "sudo runs the training as root or another user",
        "leave it out, or name root@HOST with --hosts",
    ),
    "ssh": ("ssh names a host inside the command", "leave ssh HOST out, and write --hosts HOST"),
    "sbatch": (
        "sbatch submits a script, and starts nothing itself",
        "launch the command that is in the script",
    ),
    "salloc": ("salloc asks Slurm for hosts", "run gpulaunch inside of the allocation"),
    "tmux": ("tmux keeps a terminal for the command", "leave it out: --detach lets the run continue"),
    "screen": ("screen keeps a terminal for the command", "leave it out: --detach lets the run continue"),
    "script": ("script keeps a terminal for the command", "leave it out: every rank has a log of its own"),
    **dict.fromkeys(("debugpy-run", "debugpy"), ("it waits for a debugger in every rank", "leave it out")),
    "ipython": ("ipython is for a person at a terminal", "write python in place of it"),
    "systemd-run": (
        "it starts the command outside of the run",
        "leave it out: --detach lets the run continue, and limits are those of each host",
    ),
    "torchpack": (
        "it starts ranks through MPI, and its library asks MPI for them",
        "write the command into a script, which is started once: gpulaunch run --hosts A -- bash SCRIPT",
    ),
    "tox": ("it hands on no variable that pass_env does not name", "paste the command of its environment"),
    "horovodrun": (
        "the ranks of Horovod meet through it, and each of ours would train alone",
        "train with torch.distributed; or start it on one host: gpulaunch run --hosts A -- bash SCRIPT",
    ),
    "prlimit": ("it would limit the launcher alone", "leave it out: limits are those of each host"),
    "watch": ("it starts a command again and again", "leave it out: restart: of a run config does it"),
    **dict.fromkeys(("su", "runuser", "doas"), _OTHER_USER),
    **dict.fromkeys(
        ("nix", "nix-shell", "guix"),
        (
            "it makes an environment of its own for the command, in which gpulaunch can verify no rank",
            "leave it out, and name the interpreter of that environment (python: in hosts.yaml)",
        ),
    ),
    **dict.fromkeys(as_names("cmd cmd.exe pwsh powershell powershell.exe"), _OF_WINDOWS),
    **dict.fromkeys(("dotenv", "direnv", "doppler", "infisical"), _VARIABLES),
    **dict.fromkeys(CONTAINERS, (f"it {_CONTAINER[0]}", _CONTAINER[1])),
    **dict.fromkeys(TO_HOSTS, (f"it {_HOSTS[0]}", _HOSTS[1])),
    **dict.fromkeys(REPEATERS, (f"it {_REPEATS[0]}", _REPEATS[1])),
    **dict.fromkeys(SCHEDULERS, (f"it {SCHEDULER[0]}", SCHEDULER[1])),
    **{name: (f"it {_PROFILER[0]}", _PROFILER[1].format(name=name)) for name in _PROFILERS},
}
"""Programs whose work gpulaunch does itself, or cannot honour: why, and what to do."""
