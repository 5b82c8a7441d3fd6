"""What must be equal on all hosts of one launch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from preflight.checks.environment import LAUNCH_NEEDS
from preflight.checks.finding import Problem, Severity, name_some
from preflight.checks.install import find_launch_index, format_pip_command, format_torch_install
from preflight.checks.registry import cluster_check
from preflight.checks.versions import parse_release
from preflight.facts.host import HostFacts, PythonEnv
from preflight.facts.missing import Missing
from preflight.job import Job

if TYPE_CHECKING:
    from preflight.checks.runner import PlannedLaunch

T = TypeVar("T")
Hosts = Mapping[str, HostFacts]


def _differ(
    hosts: Hosts,
    subject: str,
    section: Callable[[HostFacts], T | Missing],
    read: Callable[[T], str | Missing],
    why: str,
    fix: str,
) -> Iterator[Problem]:
    """Yield one problem when `read` gives different texts; "" and Missing are not known and not compared."""
    groups: dict[str, list[str]] = {}
    for name, facts in hosts.items():
        part = section(facts)
        value = "" if isinstance(part, Missing) else read(part)
        if value and not isinstance(value, Missing):
            groups.setdefault(value, []).append(name)
    if len(groups) > 1:
        ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
        listed = "; ".join(f"{value} on {name_some(names)}" for value, names in ordered)
        yield Problem(f"{subject} differs: {listed}; {why}", fix, subject=subject)


def _python(facts: HostFacts) -> PythonEnv | Missing:
    return facts.python


def _package_differs(hosts: Hosts, name: str, why: str) -> Iterator[Problem]:
    absent = "" if name in LAUNCH_NEEDS else "not installed"  # ENV002 has said so of what a launch needs
    fix = _same_version(hosts, name)
    yield from _differ(hosts, name, _python, lambda python: python.packages.get(name, absent), why, fix)


def _same_version(hosts: Hosts, name: str) -> str:
    """Return what to type so that all hosts have the version of a package that most have.

    Of torch it is the build that runs on all of them: two builds of one release differ as well.
    """
    pythons = [(facts, facts.python) for facts in hosts.values() if isinstance(facts.python, PythonEnv)]
    counts = Counter(each.packages[name] for _, each in pythons if name in each.packages)
    wanted = max(counts, key=lambda version: (counts[version], parse_release(version)), default="")
    words = f"{name}=={wanted}"
    if wanted and name == "torch" and (index := find_launch_index(hosts.values())):
        words = format_torch_install({name: wanted}, index)
        wanted = words.split()[0].partition("==")[2]
    typed: dict[str, list[str]] = {}
    for facts, python in pythons:
        if python.packages.get(name, "") != wanted:
            typed.setdefault(format_pip_command(facts, python, words), []).append(facts.host)
    return "; ".join(f"on {name_some(names)}: {command}" for command, names in typed.items())


@cluster_check("SAME001")
def torch_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of torch, build included.

    Ranks of different versions may not even meet; where they do, they compute differently.

    Fix: install the same wheel everywhere.
    Source: package metadata of each host.
    """
    yield from _package_differs(hosts, "torch", "ranks would not compute alike")


@cluster_check("SAME002", gpu_only=True)
def nccl_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """NCCL has one version on all hosts.

    NCCL refuses to talk to another version, or hangs.

    Fix: install the same torch wheel everywhere; it brings its NCCL.
    Source: package metadata of nvidia-nccl-cu*; NCCL's bootstrap check.
    """
    why, fix = "it refuses or hangs between versions", _same_version(hosts, "torch")
    fix = fix or "torch brings its NCCL: pip list | grep nvidia-nccl shows one that does not belong to it"
    yield from _differ(hosts, "NCCL", _python, lambda python: python.nccl, why, fix)


@cluster_check("SAME003", Severity.WARNING)
def accelerate_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of accelerate.

    Its launcher's options and defaults change between versions.

    Fix: install the same version everywhere.
    Source: package metadata of each host.
    """
    yield from _package_differs(hosts, "accelerate", "its defaults change")


@cluster_check("SAME004", Severity.WARNING)
def transformers_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of transformers.

    Since 5.0 a model without a given dtype is loaded in the checkpoint's own: one rank in float32 and one in
    bfloat16 is possible.

    Fix: install the same version everywhere.
    Source: package metadata of each host; transformers pull request 42805.
    """
    yield from _package_differs(hosts, "transformers", "models may load in different dtypes")


@cluster_check("SAME005", Severity.WARNING)
def python_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """Python has one minor version on all hosts.

    Pickled objects, hash seeds and installed packages differ between versions.

    Fix: set `python:` in hosts.yaml to environments of one version.
    Source: the interpreter of each host.
    """
    fix = "set python: in hosts.yaml to environments of one version"
    yield from _differ(hosts, "Python", _python, _minor, "installed packages differ with it", fix)


def _minor(python: PythonEnv) -> str:
    return ".".join(map(str, parse_release(python.version)[:2]))


@cluster_check("SAME006")
def the_script_is_equal(hosts: Hosts, job: Job) -> Iterator[Problem]:
    """The training script has the same content on all hosts.

    Ranks of two versions of a script wait for each other in different collectives, for ever.

    Fix: `sync: true` in the run config sends the local tree before each launch; or `git pull` on all hosts.
    Source: SHA-256 of the file on each host.
    """
    if job.send_script:
        return
    fix = "run with --set sync=true, which sends the local tree to all hosts; or git pull on each of them"
    why = "ranks would wait for each other for ever"
    yield from _differ(hosts, "script", lambda facts: facts.script, lambda file: file.sha256[:12], why, fix)


@cluster_check("SAME007", Severity.WARNING, gpu_only=True)
def the_driver_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """The NVIDIA driver has one version on all hosts.

    It works mostly; failures that appear on one host only are then hard to explain.

    Fix: ask the administrator.
    Source: NVML driver version of each host.
    """
    why = "faults of one host are hard to explain"
    fix = "ask the administrators for one version (nvidia-smi shows a host's); nothing to do while all works"
    yield from _differ(hosts, "driver", lambda facts: facts.driver, lambda driver: driver.version, why, fix)


@cluster_check("SAME008", Severity.WARNING, gpu_only=True)
def gpu_models_are_equal(hosts: Hosts, job: Job, launch: "PlannedLaunch") -> Iterator[Problem]:
    """The GPUs that the job uses are of one model on all hosts.

    The slowest GPU sets the pace, the smallest memory the batch size, the oldest the precision.

    Fix: launch on hosts of one kind.
    Source: NVML names.
    """

    def models(facts: HostFacts) -> str | Missing:
        if isinstance(facts.gpus, Missing):
            return facts.gpus
        names = {gpu.name for gpu in launch.gpus_of(facts, job) if not isinstance(gpu.name, Missing)}
        return " + ".join(sorted(names))

    fix = "launch on hosts of one kind with --hosts"
    yield from _differ(hosts, "GPU model", models, str, "the slowest sets the pace", fix)
