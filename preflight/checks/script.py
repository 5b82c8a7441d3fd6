"""The training script, read and never executed."""

from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import cluster_check
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
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
