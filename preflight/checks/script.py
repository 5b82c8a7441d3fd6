"""The training script, read and never executed."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from preflight.checks.environment import list_lacking_packages
from preflight.checks.finding import Problem, Severity, name_some
from preflight.checks.gpus import ON_THE_CPU
from preflight.checks.install import install_command
from preflight.checks.registry import cluster_check
from preflight.decide.decision import NodeRanks
from preflight.decide.gpu_signs import find_gpu_demand
from preflight.decide.script_args import find_precision_in_args, read_option_values
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.package_names import find_package
from preflight.facts.script import CodeLocation, LightningSize, ScriptAnalysis
from preflight.job import Job

if TYPE_CHECKING:
    from preflight.checks.runner import PlannedLaunch


@cluster_check("SCR001")
def the_script_can_train_as_launched(
    hosts: Mapping[str, HostFacts], job: Job, launch: "PlannedLaunch"
) -> Iterator[Problem]:
    """The training script has no precision, placement or version fault that stops this launch.

    It is read for the GPUs, versions, arguments and precision of this launch, and never executed; with it the
    modules of its own that lie on this machine, as with --sync and on localhost; an info names others. What
    is sure to fail is critical, what may is a warning; `gpulaunch explain` knows the rule each message names.
    What could not be judged (a file that is not Python, a script of too many paths) is unknown.

    Fix: what the message says; a line that is meant so takes `# gpulaunch: ignore[CODE]`.
    Source: the rules of `gpulaunch lint`.
    """
    main = next(iter(hosts.values()), None)
    if main is None or isinstance(main.script, Missing) or isinstance(main.script.text, Missing):
        return
    from preflight.checks.script_judge import judge_script  # noqa: PLC0415 - a third of our modules; only a script pays
    from preflight.script.rules.registry import Level  # noqa: PLC0415 - as above

    severities = {Level.ERROR: Severity.CRITICAL, Level.WARNING: Severity.WARNING}
    result = judge_script(main.script.text, main.script.path, hosts, job, launch)
    for finding in result.findings:
        severity = severities.get(finding.level)
        if severity is not None:
            message = f"{finding.code}: {finding.message}"
            yield Problem(message, finding.fix, str(finding.place), severity)
    if result.problems and not result.errors:
        prefix = f"not judged: {result.problems[0]}"
        more = f" (and {len(result.problems) - 1} more)" if len(result.problems) > 1 else ""
        fix = "gpulaunch lint SCRIPT shows all; --ignore SCR001 when you know the script"
        yield Problem(f"{prefix}{more}", fix, main.script.path, Severity.UNKNOWN)
    if launch.find is None and main.script.own_modules:
        names = ", ".join(main.script.own_modules)
        message = f"judged without its own modules, which lie on {main.host} alone: {names}"
        fix = "--sync sends your tree and reads it; gpulaunch lint SCRIPT reads one that lies on this machine"
        yield Problem(message, fix, main.script.path, Severity.INFO)


@cluster_check("SCR002")
def lightning_counts_as_the_launch_does(
    ranks: Mapping[str, NodeRanks], script: ScriptAnalysis | None, job: Job
) -> Iterator[Problem]:
    """Lightning's devices x num_nodes is the number of ranks of this launch.

    Under a launcher Lightning starts no process itself, and ends every rank where the product is another than
    the world. "auto" is what a host has, so it holds only where every host has as many ranks.

    Fix: the values that the message names; or `--gpus N` for as many ranks on every host.
    Source: lightning/fabric/plugins/environments/torchelastic.py, validate_settings.
    """
    if script is None or not ranks or job.command.launched_by == "fabric":
        return
    counts = {host: len(node.slots) for host, node in ranks.items()}
    world, many = sum(counts.values()), len(counts)
    for size in (*script.lightning, *_lightning_arguments(script, job.args)):
        if not size.devices or not size.nodes:
            continue  # computed: only Lightning will know it
        on_cpu = size.on_cpu or not job.wants_gpus
        each = [
            _visible(node, on_cpu=on_cpu) if size.devices < 0 else size.devices for node in ranks.values()
        ]
        if all(devices * size.nodes == world for devices in each):
            continue
        said = "all devices" if size.devices < 0 else f"devices={size.devices}"
        what = "/".join(map(str, sorted({devices * size.nodes for devices in each})))
        equal = len(set(counts.values())) == 1
        yield Problem(
            f"{size.call} with {said} and num_nodes={size.nodes} is a world of {what}, and this"
            f" launch has {world} ranks on {many} host{'s' * (many != 1)}: Lightning ends every rank",
            f"{size.call}(devices={world // many}, num_nodes={many})"
            if equal
            else f"as many ranks on every host: --gpus {min(counts.values())}, and"
            f" {size.call}(devices={min(counts.values())}, num_nodes={many})",
            str(size.place),
        )


def _lightning_arguments(script: ScriptAnalysis, args: tuple[str, ...]) -> Iterator[LightningSize]:
    """Yield what LightningCLI is given: `--trainer.devices 2 --trainer.num_nodes 2`."""
    given = dict(read_option_values(args))
    devices, nodes = given.get("--trainer.devices", ""), given.get("--trainer.num_nodes", "1")
    known = {"lightning", "pytorch_lightning"}.intersection(script.imports)
    if known and devices.isdecimal() and nodes.isdecimal():
        yield LightningSize(CodeLocation(script.path, 1), "Trainer", int(devices), int(nodes), on_cpu=False)


def _visible(node: NodeRanks, *, on_cpu: bool) -> int:
    """Return how many devices Lightning counts in one rank of a host; of a CPU it counts one."""
    return 1 if on_cpu or node.single_gpu_visible else len(node.slots)


@cluster_check("SCR003")
def the_script_finds_what_it_imports(hosts: Mapping[str, HostFacts], job: Job) -> Iterator[Problem]:
    """Every host's interpreter finds the modules that the training script imports first of all.

    Ranks of a host that lacks one end at once with ModuleNotFoundError, and the others wait for them. Modules
    of the script's own count as found beside it. Where the script edits sys.path, this is a
    warning. Imports in functions, conditions and `try` are left out.

    Fix: `gpulaunch run --sync` sends modules of your own with the tree, PYTHONPATH in `env:` names other
    places; a package belongs into the interpreter of each host (`python:` in hosts.yaml).
    Source: importlib.machinery.PathFinder on the host, over site-packages, PYTHONPATH and the folder of the
    script; nothing is imported.
    """
    lacking: dict[str, list[str]] = {}
    imports = []
    for host, facts in hosts.items():
        python = facts.python
        if isinstance(python, Missing) or isinstance(python.absent_modules, Missing):
            continue  # ENV001 reports an interpreter that does not answer
        imports.append(host)
        reported = {"torch", *list_lacking_packages(python, job)}  # by ENV002
        for name in (one for one in python.absent_modules if one not in reported):
            lacking.setdefault(name, []).append(host)
    severity = Severity.WARNING if _looks_elsewhere(hosts, job) else None
    for where in dict.fromkeys(map(tuple, lacking.values())):
        names = [name for name, hosts_without in lacking.items() if tuple(hosts_without) == where]
        have = [host for host in imports if host not in where]
        known = f"; {name_some(have)} {'have' if len(have) > 1 else 'has'} it" if have else ""
        yield Problem(
            f"{', '.join(names)}, imported by the script, cannot be found on {name_some(where)}{known}",
            _how_to_find(names, hosts[where[0]], have),
            names[0],
            severity,
            hosts=where,
        )


@cluster_check("SCR004", Severity.WARNING)
def a_launch_on_the_cpu_has_a_script_for_it(
    hosts: Mapping[str, HostFacts], job: Job, script: ScriptAnalysis | None
) -> Iterator[Problem]:
    """Where `gpus: auto` leaves a launch on the CPU, neither its script nor its options ask for a GPU.

    Half precision does nothing on a CPU, nccl starts no group, and a `.cuda()` ends the rank. A script that
    asks whether there is a GPU (`torch.cuda.is_available()`) is for both.

    Fix: `--gpus none` where the CPU is meant; else `gpulaunch preflight HOST` shows why there is no GPU.
    Source: the script and its arguments as they are read; torch's nccl backend is for CUDA tensors alone.
    """
    main = next(iter(hosts.values()), None)
    if main is None or not job.gpus_by_auto or job.gpus != "none":
        return
    wanted = find_precision_in_args(job, script) if job.precision == "auto" else job.precision
    demand = f"it is to train in {wanted}" if wanted in ("fp16", "fp8") else find_gpu_demand(main, script)
    if demand:
        yield Problem(
            f"no host has a GPU, so the ranks run on the CPU, and the script is for GPUs: {demand}",
            ON_THE_CPU,
        )


@cluster_check("SCR006", Severity.WARNING)
def a_restart_continues_from_a_checkpoint(
    hosts: Mapping[str, HostFacts], job: Job, launch: "PlannedLaunch"
) -> Iterator[Problem]:
    """Where a failed run is to be restarted, its script continues from a checkpoint.

    A script that takes its checkpoint from an option (`--resume PATH`) trains from step 0 again where a
    restart does not give it one, and may write over what it had saved. gpulaunch reads the script and its own
    modules, executes nothing, and says nothing where the script may look for its last checkpoint itself.

    Fix: `resume_args:` under `restart:` of the run config, or `--set` for one launch; `{checkpoint}` is the
    path of the last whole checkpoint.
    Source: the options that the script declares, and what it calls.
    """
    main = next(iter(hosts.values()), None)
    if not job.restarts or job.resumes or main is None or isinstance(main.script, Missing):
        return
    from preflight.script.resume_signs import gives_checkpoint, read_resume_signs  # noqa: PLC0415 - only with restarts

    text = main.script.text
    if isinstance(text, Missing) or gives_checkpoint((*job.args, *job.env)):
        return
    try:
        signs = read_resume_signs(text, main.script.path, launch.find, launch.parser)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # SCR001 says why it cannot be read
    if signs.finds or (signs.loads and not signs.option):
        return
    name = posixpath.basename(main.script.path)
    if not signs.option:
        yield Problem(
            f"a restart trains from step 0: {name} loads no checkpoint",
            f"let {name} load its last checkpoint when it starts",
            main.script.path,
        )
        return
    args = f'{signs.option}, "{{checkpoint}}"' if signs.takes_path else signs.option
    yield Problem(
        f"a restart trains from step 0: {name} continues from a checkpoint with {signs.option} alone,"
        " and a restart does not give it",
        f"--set 'restart.resume_args=[{args}]', or resume_args: under restart: in the run config",
        str(signs.place or main.script.path),
    )


def _how_to_find(names: Sequence[str], facts: HostFacts, have: Sequence[str]) -> str:
    """Return the command that installs what is known as a package, and what to do about other names."""
    packages = [package for name in names if (package := find_package(name))]
    others = [name for name in names if not find_package(name)]
    fixes = []
    if packages and not isinstance(facts.python, Missing):
        fixes.append(install_command(facts, facts.python, packages, gpus=False))
    if others and have:
        fixes.append(f"install {', '.join(others)} in python: of {facts.host} as on {have[0]}")
    elif others:
        fixes.append(
            f"{', '.join(others)}: your own module comes with --sync where it lies beside the script, or is"
            " found in directories of the host that PYTHONPATH in env: names; a package has to be installed"
            " on the hosts"
        )
    return "; ".join(fixes)


def _looks_elsewhere(hosts: Mapping[str, HostFacts], job: Job) -> bool:
    """Whether modules can come from places that the hosts were not asked about."""
    main = next(iter(hosts.values()), None)
    text = "" if main is None or isinstance(main.script, Missing) else main.script.text
    edits = isinstance(text, str) and ("sys.path" in text or "addsitedir" in text)
    return edits or job.command.launched_by == "deepspeed"  # which adds the working directory
