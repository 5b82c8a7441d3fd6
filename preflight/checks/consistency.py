"""What must be equal on all hosts of one launch, and the hosts' clocks."""

from collections.abc import Callable, Iterator, Mapping

from preflight.checks.environment import LAUNCH_NEEDS
from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import ClockOffset, cluster_check
from preflight.checks.versions import release
from preflight.decide.usable_gpus import select_gpus
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Expect, Job

Hosts = Mapping[str, HostFacts]


def _differ(
    hosts: Hosts, what: str, read: Callable[[HostFacts], str], why: str, fix: str
) -> Iterator[Problem]:
    """Yield one problem when `read` gives different texts; "" is not known and not compared."""
    groups: dict[str, list[str]] = {}
    for name, facts in hosts.items():
        value = read(facts)
        if value:
            groups.setdefault(value, []).append(name)
    if len(groups) > 1:
        ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
        listed = "; ".join(f"{value} on {', '.join(names)}" for value, names in ordered)
        yield Problem(f"{what} differs: {listed}; {why}", fix, subject=what)


def _package(name: str) -> Callable[[HostFacts], str]:
    absent = "" if name in LAUNCH_NEEDS else "not installed"  # ENV002 has said so of what a launch needs

    def read(facts: HostFacts) -> str:
        if isinstance(facts.python, Missing):
            return ""
        return facts.python.packages.get(name, absent)

    return read


_INSTALL = "install the same versions on all hosts: pip freeze on the good one, pip install -r on the others"


@cluster_check("SAME001")
def torch_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of torch, build included.

    Ranks of different versions may not even meet; where they do, they compute differently.

    Fix: install the same wheel everywhere.
    Source: package metadata of each host.
    """
    yield from _differ(hosts, "torch", _package("torch"), "ranks would not compute alike", _INSTALL)


@cluster_check("SAME002", gpu_only=True)
def nccl_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """NCCL has one version on all hosts.

    NCCL refuses to talk to another version, or hangs.

    Fix: install the same torch wheel everywhere; it brings its NCCL.
    Source: package metadata of nvidia-nccl-cu*; NCCL's bootstrap check.
    """

    def read(facts: HostFacts) -> str:
        if isinstance(facts.python, Missing) or isinstance(facts.python.nccl, Missing):
            return ""
        return facts.python.nccl

    yield from _differ(hosts, "NCCL", read, "it refuses or hangs between versions", _INSTALL)


@cluster_check("SAME003", Severity.WARNING)
def accelerate_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of accelerate.

    Its launcher's options and defaults change between versions.

    Fix: install the same version everywhere.
    Source: package metadata of each host.
    """
    yield from _differ(hosts, "accelerate", _package("accelerate"), "its defaults change", _INSTALL)


@cluster_check("SAME004", Severity.WARNING)
def transformers_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """All hosts have the same version of transformers.

    Since 5.0 a model without a given dtype is loaded in the checkpoint's own: one rank in float32 and one in
    bfloat16 is possible.

    Fix: install the same version everywhere.
    Source: package metadata of each host; transformers pull request 42805.
    """
    why = "models may load in different dtypes"
    yield from _differ(hosts, "transformers", _package("transformers"), why, _INSTALL)


@cluster_check("SAME005", Severity.WARNING)
def python_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """Python has one minor version on all hosts.

    Pickled objects, hash seeds and installed packages differ between versions.

    Fix: set `python:` in hosts.yaml to environments of one version.
    Source: the interpreter of each host.
    """

    def read(facts: HostFacts) -> str:
        return (
            "" if isinstance(facts.python, Missing) else ".".join(map(str, release(facts.python.version)[:2]))
        )

    fix = "set python: in hosts.yaml to environments of one version"
    yield from _differ(hosts, "Python", read, "installed packages differ with it", fix)


@cluster_check("SAME006")
def the_script_is_equal(hosts: Hosts, job: Job) -> Iterator[Problem]:
    """The training script has the same content on all hosts.

    Ranks of two versions of a script wait for each other in different collectives, for ever.

    Fix: `sync: true` in the run config sends the local tree before each launch; or `git pull` on all hosts.
    Source: SHA-256 of the file on each host.
    """
    if job.send_script:
        return

    def read(facts: HostFacts) -> str:
        return "" if isinstance(facts.script, Missing) else facts.script.sha256[:12]

    fix = "run with --set sync=true, which sends the local tree to all hosts; or git pull on each of them"
    yield from _differ(hosts, "script", read, "ranks would wait for each other for ever", fix)


@cluster_check("SAME007", Severity.WARNING, gpu_only=True)
def the_driver_is_equal(hosts: Hosts) -> Iterator[Problem]:
    """The NVIDIA driver has one version on all hosts.

    It works mostly; failures that appear on one host only are then hard to explain.

    Fix: ask the administrator.
    Source: NVML driver version of each host.
    """

    def read(facts: HostFacts) -> str:
        return "" if isinstance(facts.driver, Missing) else facts.driver.version

    yield from _differ(
        hosts, "driver", read, "faults of one host are hard to explain", "ask the administrator"
    )


@cluster_check("SAME008", Severity.WARNING, gpu_only=True)
def gpu_models_are_equal(hosts: Hosts, job: Job) -> Iterator[Problem]:
    """The GPUs that the job uses are of one model on all hosts.

    The slowest GPU sets the pace, the smallest memory the batch size, the oldest the precision.

    Fix: launch on hosts of one kind.
    Source: NVML names.
    """

    def read(facts: HostFacts) -> str:
        if isinstance(facts.gpus, Missing):
            return ""
        used = select_gpus(facts, job).candidates
        names = {g.name for g in facts.gpus if g.index in used and not isinstance(g.name, Missing)}
        return " + ".join(sorted(names))

    fix = "launch on hosts of one kind with --hosts"
    yield from _differ(hosts, "GPU model", read, "the slowest sets the pace", fix)


@cluster_check("SYS003", Severity.WARNING)
def clocks_agree(hosts: Hosts, clocks: Mapping[str, ClockOffset], expect: Expect) -> Iterator[Problem]:
    """The hosts' clocks agree.

    Logs of different hosts cannot be put in order, certificates and caches expire, file times mislead make
    and rsync.

    Fix: root: `timedatectl set-ntp true`, or start chrony.
    Source: each host's time against the client's, allowing for the time the answer took; `clock_skew_s`.
    """
    bounds = {name: clocks[name] for name in hosts if name in clocks}
    if len(bounds) < 2:
        return
    # The client is one more clock: where two hosts differ, it shows which of them is off. The time of most is
    # between the two middles, not halfway: of hosts asked late in a long round, `high` is far off.
    lows, highs = (sorted(times) for times in zip((0.0, 0.0), *bounds.values(), strict=True))
    middle_low, middle_high = lows[len(lows) // 2], highs[len(highs) // 2]
    for name, (low, high) in bounds.items():
        ahead, behind = low - middle_high, middle_low - high
        if max(ahead, behind) > expect.clock_skew_s:
            word = "ahead of" if ahead > behind else "behind"
            yield Problem(
                f"its clock is at least {max(ahead, behind):.0f} s {word} the others'",
                "as root on the host: timedatectl set-ntp true",
                hosts=(name,),
            )
