"""The training script, read and never executed."""

from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import cluster_check
from preflight.decide.decision import NodeRanks
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job
from preflight.script.rules.registry import Level

_SEVERITY = {Level.ERROR: Severity.CRITICAL, Level.WARNING: Severity.WARNING}


@cluster_check("SCR001")
def the_script_can_train_as_launched(hosts: Mapping[str, HostFacts], job: Job) -> Iterator[Problem]:
    """The training script has no precision, placement or version fault that stops this launch.

    It is read for the GPUs, versions, arguments and precision of this launch, and never executed. What is
    sure to fail is critical, what may is a warning; `gpulaunch explain` knows the rule each message names.
    What could not be judged (a file that is not Python, a script of too many paths) is unknown.

    Fix: what the message says; a line that is meant so takes `# gpulaunch: ignore[CODE]`.
    Source: the rules of `gpulaunch lint`.
    """
    main = next(iter(hosts.values()), None)
    if main is None or isinstance(main.script, Missing) or isinstance(main.script.text, Missing):
        return
    from preflight.checks.script_judge import judge_script  # noqa: PLC0415 - a third of our modules; only a script pays

    result = judge_script(main.script.text, main.script.path, hosts, job)
    for finding in result.findings:
        severity = _SEVERITY.get(finding.level)
        if severity is not None:
            message = f"{finding.place} {finding.code}: {finding.message}"
            yield Problem(message, finding.fix, str(finding.place), severity)
    if result.problems and not result.errors:
        told = f"not judged: {result.problems[0]}"
        more = f" (and {len(result.problems) - 1} more)" if len(result.problems) > 1 else ""
        fix = "gpulaunch lint SCRIPT shows all; --ignore SCR001 when you know the script"
        yield Problem(f"{told}{more}", fix, main.script.path, Severity.UNKNOWN)


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
    for told in script.lightning:
        if not told.devices or not told.nodes:
            continue  # computed: only Lightning will know it
        on_cpu = told.on_cpu or not job.wants_gpus
        each = [
            _visible(node, on_cpu=on_cpu) if told.devices < 0 else told.devices for node in ranks.values()
        ]
        if all(devices * told.nodes == world for devices in each):
            continue
        said = "all devices" if told.devices < 0 else f"devices={told.devices}"
        what = "/".join(map(str, sorted({devices * told.nodes for devices in each})))
        equal = len(set(counts.values())) == 1
        yield Problem(
            f"{told.place}: {told.call} with {said} and num_nodes={told.nodes} is a world of {what}, and this"
            f" launch has {world} ranks on {many} host{'s' * (many != 1)}: Lightning ends every rank",
            f"{told.call}(devices={world // many}, num_nodes={many})"
            if equal
            else f"as many ranks on every host: --gpus {min(counts.values())}, and"
            f" {told.call}(devices={min(counts.values())}, num_nodes={many})",
            str(told.place),
        )


def _visible(node: NodeRanks, *, on_cpu: bool) -> int:
    """Return how many devices Lightning counts in one rank of a host; of a CPU it counts one."""
    return 1 if on_cpu or node.single_gpu_visible else len(node.slots)
