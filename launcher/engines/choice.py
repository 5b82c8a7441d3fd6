"""Which engine starts the ranks: the one the user names, else the one the script is written for. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from launcher.engines.base import ENGINES
from preflight.decide.decision import DecisionReason
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import Job

_OF_ACCELERATE = {"accelerate": "uses accelerate", "trainer": "uses transformers' Trainer", "trl": "uses trl"}


def choose_engine(
    job: Job, script: ScriptAnalysis | None, hosts: Iterable[HostFacts]
) -> tuple[Job, DecisionReason]:
    """Return the job with its engine settled, and why that one.

    A script that uses accelerate, or a library that brings it along, is started by accelerate; one that joins
    a process group or reads its rank from the environment itself, by torchrun, which needs nothing but torch.
    Where reading the script does not decide, accelerate starts it, unless a host lacks that.
    """
    if job.engine is not None and job.engine.once_per_host:
        return job, DecisionReason(
            "the command runs once per host and starts the ranks itself", job.command.executable
        )
    if job.engine is not None:
        source = (
            f"{job.command.launched_by} of the command"
            if job.command.launched_by
            else "engine: of the run config"
        )
        return job, DecisionReason(f"{job.engine.name} starts the ranks", source)
    name, why, source = _written_for(script) if script is not None else ("", "", "")
    if not name:
        name, why, source = _installed(job, hosts)
    chosen = replace(job, engine=ENGINES[name].traits)
    return chosen, DecisionReason(f"{name} starts the ranks: {why}", source)


def _written_for(script: ScriptAnalysis) -> tuple[str, str, str]:
    """Return engine, reason and evidence; "" where reading the script does not decide."""
    if script.style in _OF_ACCELERATE:
        return (
            "accelerate",
            f"the script {_OF_ACCELERATE[script.style]}",
            script.style_evidence or script.path,
        )
    library = next(iter(script.imports), "")
    if library in ("accelerate", "trl"):
        return "accelerate", f"the script imports {library}", script.path
    if script.reads_rank:
        return "torchrun", "the script is written for torchrun, and uses no accelerate", script.reads_rank
    if library:
        return "torchrun", f"the script imports {library}, which goes by torchrun's variables", script.path
    if script.style == "torch":
        why = "the script trains with torch alone, and uses no accelerate"
        return "torchrun", why, script.style_evidence or script.path
    return "", "", ""


def _installed(job: Job, hosts: Iterable[HostFacts]) -> tuple[str, str, str]:
    what = "reading the script does not decide it" if job.script else "the module is not read"
    lacking = [
        facts.host
        for facts in hosts
        if not isinstance(facts.python, Missing) and "accelerate" not in facts.python.packages
    ]
    if lacking:
        return "torchrun", f"{what}, and {lacking[0]} has no accelerate", "installed packages"
    return "accelerate", f"{what}, and no host lacks accelerate", "installed packages"
