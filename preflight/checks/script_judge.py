"""A script judged for one launch: its hosts' GPUs, the launch's precision, the arguments it really gets."""

from collections.abc import Mapping

from preflight.checks.runner import PlannedLaunch
from preflight.decide.decision import NodeRanks
from preflight.decide.gpu_assignment import map_ranks
from preflight.decide.precision import decide_precision
from preflight.decide.script_args import align_args
from preflight.errors import GpulaunchError
from preflight.facts.gpu import Capability
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import Job, Precision
from preflight.script.analyze import analyze_script
from preflight.script.lint import LintResult, lint_for
from preflight.script.syntax_trees import Parser
from preflight.script.target import RankTarget


def judge_script(
    text: str, path: str, hosts: Mapping[str, HostFacts], job: Job, planned: PlannedLaunch
) -> LintResult:
    """Return the faults of a script as this launch would run it; the first host is the main host.

    Where the planner has read it, its trees and what it found are used. Where the hosts' GPUs are not known
    it is judged for what GPUs before and from Ampere on would do.
    """
    main = next(iter(hosts.values()), None)
    versions = {} if main is None or isinstance(main.python, Missing) else main.python.packages
    ranks = planned.ranks or _map_ranks(hosts, job)
    capabilities, size = _hardware(hosts, ranks)
    parser = planned.parser or Parser()
    script = planned.script or analyze_script(text, path, args=job.args, versions=versions, parser=parser)
    launch: Precision | None = None
    try:
        launch = decide_precision(hosts, job, script, ranks).mixed_precision if ranks else None
    except GpulaunchError:
        launch = None  # the plan reports it; for a check it means that the launch's precision is not known
    args = align_args(job, launch, script).args if launch else job.args
    kinds = capabilities or ([None] if not job.wants_gpus else [(7, 5), (8, 0)])
    nodes = len(hosts) if size else None
    targets = [RankTarget(item, size, launch, args, versions, nodes=nodes) for item in kinds]
    certain = bool(capabilities) or not job.wants_gpus
    return lint_for(text, path, targets, certain=certain, find=planned.find, parser=parser)


def _map_ranks(hosts: Mapping[str, HostFacts], job: Job) -> Mapping[str, NodeRanks]:
    """Return the ranks of each host where nothing is planned; {} where a host cannot give them."""
    try:
        return {name: map_ranks(facts, job) for name, facts in hosts.items()}
    except GpulaunchError:
        return {}


def _hardware(
    hosts: Mapping[str, HostFacts], ranks: Mapping[str, NodeRanks]
) -> tuple[list[Capability | None], int | None]:
    """Return the capabilities of the GPUs that would take part, and the world size; None when not known."""
    size = sum(len(node.slots) for node in ranks.values()) or None
    all_of = [gpu.capability for name, node in ranks.items() for gpu in node.gpus_of(hosts[name])]
    known = [each for each in all_of if not isinstance(each, Missing)]
    return (list(dict.fromkeys(known)) if len(known) == len(all_of) else []), size
