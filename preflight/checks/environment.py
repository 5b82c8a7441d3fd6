"""The training environment's Python and the variables that a launch on the host inherits."""

from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity
from preflight.checks.install import install_command
from preflight.checks.message_text import quote_path
from preflight.checks.registry import cluster_check, host_check
from preflight.checks.versions import compare, parse_release
from preflight.facts.host import HostFacts, PythonEnv
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job

OLDEST_PYTHON = (3, 9)
LAUNCH_NEEDS = ("torch", "accelerate")  # what engines may need; this launch's says which it does

HARMFUL = {
    "CUDA_LAUNCH_BLOCKING": "makes every kernel launch wait, which slows training several times",
    "CUDA_INJECTION64_PATH": "loads a profiler or debugger into every rank",
    "CUDA_INJECTION32_PATH": "loads a profiler or debugger into every rank",
    "NSIGHT_CUDA_DEBUGGER": "puts every rank under a debugger",
    "CUDA_PROFILE": "turns on the old profiler in every rank",
    "COMPUTE_PROFILE": "turns on the old profiler in every rank",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "makes a failing rank wait for a debugger instead of ending",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "makes a failing rank write the GPU's memory to disk before it ends",
    "CUDA_AUTO_BOOST": "changes the GPUs' clocks under the job",
    "NCCL_P2P_DISABLE": "sends traffic between GPUs through the host's memory",
    "NCCL_SHM_DISABLE": "sends traffic between ranks of one host through the network",
    "NCCL_IB_DISABLE": "leaves InfiniBand and RoCE unused",
    "NCCL_DEBUG_SUBSYS": "may print a line per message",
}
_OFF = ("", "0", "false", "False", "OFF", "off")

_SERVICES = {  # names, what logs in by an interpreter, what does without
    "wandb": ("Weights & Biases", "-m wandb login", "or --set env.WANDB_MODE=offline"),
    "huggingface": (
        *("Hugging Face's hub", "-c 'import huggingface_hub as hub; hub.login()'"),
        "a gated repository also wants its terms accepted on its page",
    ),
    "comet_ml": ("Comet", "-c 'import comet_ml; comet_ml.login()'", "or --set env.COMET_START_ONLINE=false"),
    "swanlab": ("SwanLab", "-m swanlab login", "or --set env.SWANLAB_MODE=offline"),
    "clearml": ("ClearML", "-m clearml.cli.config", "or --set env.CLEARML_OFFLINE_MODE=1"),
    "neptune": ("Neptune", "", "NEPTUNE_API_TOKEN under env: of the host, or --set env.NEPTUNE_MODE=offline"),
}
_HERE = "localhost"
SCRUBBED_PREFIXES = ("ACCELERATE_", "PET_", "TORCHELASTIC_")
SCRUBBED = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK"),
)


@host_check("ENV001", gate=True)
def the_interpreter_is_new_enough(python: PythonEnv) -> Iterator[Problem]:
    """The training environment's Python answers and is 3.9 or newer.

    Every rank is started with this interpreter. Older ones cannot run the agent, the supervisor or any
    current accelerate.

    Fix: set `python:` of the host in hosts.yaml to the environment's interpreter, e.g. ~/venv/bin/python.
    Source: package metadata of accelerate (requires-python).
    """
    if parse_release(python.version) and compare(parse_release(python.version), OLDEST_PYTHON) >= 0:
        return
    yield Problem(
        f"{python.executable} is Python {python.version or 'of unknown version'}; 3.9 or newer is needed",
        "set python: for this host in hosts.yaml to the interpreter of the training environment",
    )


def list_lacking_packages(python: PythonEnv, job: Job) -> list[str]:
    """Return the packages without which an interpreter cannot start the ranks of a job."""
    needed = LAUNCH_NEEDS if job.engine is None else job.engine.packages
    return [name for name in needed if name not in python.packages]


@host_check("ENV002", gate=True)
def the_launch_packages_are_installed(facts: HostFacts, python: PythonEnv, job: Job) -> Iterator[Problem]:
    """That Python has torch installed, and accelerate where the launch goes by it.

    torch's elastic agent starts the ranks: directly (`engine: torchrun`), or through `accelerate launch`. A
    host without what the engine needs fails at once while the other hosts wait minutes for it at the
    rendezvous. Where no launch is meant yet, lacking accelerate is a warning: scripts that use it cannot run.
    A single rank needs no launcher: it lacks torch only if its script may use it.

    Fix: install them with that interpreter, or point `python:` in hosts.yaml at the right environment;
    `gpulaunch init --hosts HOST` finds the environments of a host.
    Source: distribution metadata (importlib.metadata); nothing is imported to find out.
    """
    lacking = list_lacking_packages(python, job)
    spared = job.engine is None and lacking == ["accelerate"]
    if lacking:
        yield Problem(
            f"{' and '.join(lacking)} not installed for {python.executable}: "
            + ("no script that uses it can run" if spared else "no rank can start")
            + (
                ""
                if job.uses_torch
                else ", for torch's launcher starts them: the script itself uses no torch"
            ),
            f"gpulaunch init --hosts {facts.host} looks for an environment that has them, for python: in"
            f" hosts.yaml\nor install them: {install_command(facts, python, lacking, gpus=job.wants_gpus)}",
            severity=Severity.WARNING if spared else None,
        )


@host_check("ENV003", gate=True, gpu_only=True)
def torch_is_a_cuda_build(facts: HostFacts, python: PythonEnv, job: Job) -> Iterator[Problem]:
    """The installed torch is a CUDA build.

    A CPU or ROCm wheel sees no NVIDIA GPU: the job would train on the CPU, or stop with "Torch not compiled
    with CUDA enabled". No matter where nothing in the script uses torch.

    Fix: reinstall torch from the index that is named: for the host's driver, GPUs and machine. On aarch64
    PyPI's torch is a CPU build. Where pip may not install (PEP 668), into a virtual environment.
    Source: the build part of torch's version and its torch/version.py, read without an import.
    """
    if "torch" not in python.packages or not job.uses_torch:
        return
    build = python.torch_cuda
    if isinstance(build, Missing):
        yield Problem(
            f"cannot determine which CUDA torch {python.packages['torch']} was built for: {build.reason}",
            f'{quote_path(python.executable)} -c "import torch; print(torch.version.cuda)"',
            severity=Severity.UNKNOWN,
        )
    elif not parse_release(build):
        yield Problem(
            f"torch {python.packages['torch']} is a {build} build and cannot use NVIDIA GPUs",
            install_command(facts, python, ("torch",)),
        )


@host_check("ENV004", Severity.WARNING, gpu_only=True)
def no_variable_slows_or_stops_cuda(environ: dict[str, str], job: Job) -> Iterator[Problem]:
    """No inherited variable slows CUDA or NCCL down or attaches a debugger.

    Left over in a shell's start-up files, such variables change every job on the host without a word.

    Fix: take it out of the host's start-up files; or say in the run config's `env:` what is meant (`""`).
    Source: NVIDIA DCGM's list of harmful variables; the NCCL and CUDA manuals' environment chapters.
    """
    for name, harm in HARMFUL.items():
        if name in environ and job.inherits(name) and environ[name] not in _OFF:
            yield Problem(
                f"{name}={environ[name]} is set on the host: it {harm}",
                f"run --set 'env.{name}=\"\"' (or the value that you mean); on the host: grep -n {name} "
                "~/.bashrc ~/.profile /etc/environment finds who sets it",
                subject=name,
            )


@host_check("ENV005", Severity.INFO)
def no_earlier_launch_is_inherited(environ: dict[str, str]) -> Iterator[Problem]:
    """No rank or launcher settings of another launch are inherited.

    RANK, WORLD_SIZE, ACCELERATE_* and the like would override what this launch says; gpulaunch removes them
    from the ranks' environment, so this is information only.

    Fix: nothing; for launches without gpulaunch, unset them.
    Source: torch.distributed.run and accelerate read these names.
    """
    names = sorted(n for n in environ if n in SCRUBBED or n.startswith(SCRUBBED_PREFIXES))
    if names:
        yield Problem(
            f"{', '.join(names)} set on the host; removed for this launch",
            "unset them in the host's shell start-up files",
        )


@host_check("ENV006", Severity.INFO, gpu_only=True)
def no_inherited_gpu_list(facts: HostFacts, environ: dict[str, str]) -> Iterator[Problem]:
    """CUDA_VISIBLE_DEVICES is not inherited from the host.

    It hides GPUs by position, and the position means another GPU where CUDA_DEVICE_ORDER differs. gpulaunch
    sets both itself, by UUID, so a value that a remote host's shell sets has no effect; it is reported
    because a person meant it. That of the shell in which gpulaunch is typed counts: localhost offers no other
    GPUs.

    Fix: say which GPUs to use with `gpus:` in hosts.yaml or the run config.
    Source: CUDA C++ Programming Guide, environment variables.
    """
    if "CUDA_VISIBLE_DEVICES" in environ and facts.host != _HERE:
        shown = environ["CUDA_VISIBLE_DEVICES"] or "(empty)"
        yield Problem(
            f"CUDA_VISIBLE_DEVICES={shown} is set on the host and is replaced by this launch",
            "to leave GPUs out, list the others under gpus: in hosts.yaml",
        )


@cluster_check("ENV007", Severity.WARNING)
def services_know_the_user(
    hosts: Mapping[str, HostFacts], script: ScriptAnalysis | None
) -> Iterator[Problem]:
    """Each host has the login that the script needs: of Hugging Face's hub, of a service for experiments.

    Without it ranks end minutes after the start, once the model is loaded: "api_key not configured (no-tty)",
    "You are trying to access a gated repo". gpulaunch reads what the script surely calls for this launch
    (`wandb.init`, `WandbLogger`, `report_to`, `push_to_hub`, gated models by their names; Comet, Neptune,
    SwanLab and ClearML likewise), and looks on the hosts for keys: for their presence, never for what they
    say. A key that ~/.bashrc exports below its first lines reaches no rank: a session without a terminal does
    not read so far. It says nothing where WANDB_MODE is offline or disabled, and of a script that sets such
    variables or loads a .env file.

    Fix: log in on the host, by the command of the message, which asks for the key; or `env:` of the config.
    Source: variables such as WANDB_API_KEY and HF_TOKEN, ~/.netrc, ~/.comet.config, ~/.swanlab,
    ~/clearml.conf, the token file and the cache of huggingface_hub; the script.
    """
    main = next(iter(hosts.values()), None)
    for host, facts in hosts.items():
        if script is None or isinstance(facts.python, Missing) or isinstance(facts.python.logins, Missing):
            continue  # ENV001 reports the second; a recording of before has no logins
        sought, installed = facts.python.login_services, {"huggingface", *facts.python.packages}
        lookable = {name for name in sought if name.replace("_", "-") in installed}
        mine = [use for use in script.services if facts is main or not use.first_rank]
        lacking = [
            use
            for use in reversed(mine)
            if use.service in lookable and not {use.service, use.what}.intersection(facts.python.logins)
        ]
        for use in {use.service: use for use in lacking}.values():
            name, login, more = _SERVICES[use.service]
            yield Problem(
                f"{use.what} needs a login to {name}, and this user has none on {host}",
                f"on {host}: {quote_path(facts.python.executable)} {login} asks for the key; {more}"
                if login
                else more,
                str(use.place or ""),
                hosts=(host,),
            )
