"""What of the hosts the deep checks measure: every GPU that is free; the rest is not known, and why. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.engines.base import ENGINES
from launcher.errors import GpulaunchError
from launcher.host_checks.result import PreflightResult
from launcher.text import one_line
from preflight.checks.finding import blocks_launch
from preflight.checks.holder_text import advise_on_holder, classify_by_pid, name_holder
from preflight.decide.gpu_assignment import map_ranks
from preflight.decide.gpu_signs import resolve_gpus
from preflight.decide.usable_gpus import select_gpus
from preflight.deep.measurements import Unmeasured
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import CommandRequest, Job

SCRIPT = "deep.py"
JOB_NAME = "deep"
MOST_RANKS = 1024
_MARGIN_S = 45.0
"""On top of a step's own deadline, after which a run without any activity is ended even if neither a rank nor
the process beside it can report that it hangs: their host is frozen."""


@dataclass(frozen=True, slots=True)
class DeepOptions:
    """How long the matrix products take, and how long after its time a step counts as hung."""

    seconds: float = 20.0
    step_timeout_s: float = 60.0


def build_deep_job(job: Job, options: DeepOptions) -> Job:
    """Return the job that measures what `job` would use: a rank on each free GPU of it, or its CPU ranks."""
    return Job(
        name=JOB_NAME,
        script=SCRIPT,
        send_script=True,
        args=(f"{options.seconds:g}", f"{options.step_timeout_s:g}"),
        engine=ENGINES["torchrun"].traits,
        gpus=job.gpus if job.gpus in ("none", "auto") or isinstance(job.gpus, tuple) else "all",
        processes_per_host=job.processes_per_host,
        precision="no",
        main_port=job.main_port,
        env=job.env,
        guard="off",
        hang_timeout=options.seconds + options.step_timeout_s + _MARGIN_S,
        command=CommandRequest(
            ranks_per_host=None if job.gpus == "none" else MOST_RANKS,
            host_gpus=job.command.host_gpus,
            exclude_gpus=job.command.exclude_gpus,
        ),
    )


def settle_gpus(job: Job, result: PreflightResult) -> Job:
    """Return the job with CPU ranks where no host has a GPU; a number of ranks is then the plan's own."""
    settled = resolve_gpus(job, result.facts.values())
    if settled.gpus == "none":
        settled = replace(settled, command=replace(settled.command, ranks_per_host=None))
    return settled


def choose_hosts(result: PreflightResult, job: Job) -> tuple[tuple[HostEntry, ...], tuple[Unmeasured, ...]]:
    """Return the hosts with something free to measure, and what is left out."""
    chosen: list[HostEntry] = []
    left_out: list[Unmeasured] = []
    for entry in result.entries:
        facts = result.facts.get(entry.name)
        if facts is None:
            error = result.errors.get(entry.name)
            why = one_line(error.detail) if error is not None else "it did not answer"
            left_out.append(Unmeasured(entry.name, None, why, error.fix if error is not None else ""))
            continue
        busy = tuple(_left_out_gpus(entry, facts, job))
        left_out += busy
        why = _no_ranks(entry, facts, job)
        if not why:
            chosen.append(entry)
        elif not busy:
            left_out.append(Unmeasured(entry.name, None, one_line(why.removeprefix(f"{entry.name}: "), 300)))
    return tuple(chosen), tuple(left_out)


def _no_ranks(entry: HostEntry, facts: HostFacts, job: Job) -> str:
    """Return why a host gets no rank, "" where it gets some."""
    try:
        map_ranks(facts, job, allowed=entry.gpus, allowed_by=entry.gpus_source)
    except GpulaunchError as refusal:
        return refusal.message
    return ""


def _left_out_gpus(entry: HostEntry, facts: HostFacts, job: Job) -> Iterator[Unmeasured]:
    """Yield each GPU that the job may use and that is not free, with who holds it."""
    wanted = select_gpus(facts, job, entry.gpus).candidates
    for gpu in facts.known_gpus:
        if gpu.index in wanted:
            one = replace(job, gpus=(gpu.index,))
            refusal = _no_ranks(entry, facts, one)
            if refusal:
                yield _unmeasured(entry, facts, gpu, refusal)


def _unmeasured(entry: HostEntry, facts: HostFacts, gpu: Gpu, refusal: str) -> Unmeasured:
    if isinstance(gpu.processes, Missing):
        return Unmeasured(entry.name, gpu.index, _reason(refusal))
    known = classify_by_pid(facts, entry.expect)
    holders = [known.get(each.pid) for each in gpu.processes if each.kind == "compute"]
    named = [item for item in holders if item is not None]
    if not named:
        return Unmeasured(entry.name, gpu.index, _reason(refusal))
    words = f"it is held by {', '.join(name_holder(item) for item in named)}"
    return Unmeasured(entry.name, gpu.index, words, advise_on_holder(facts, named[0], "measure it later"))


def _reason(refusal: str) -> str:
    """Return "is held by pid 4242" of "titan: no GPU is free: GPU 2 of titan is held by pid 4242"."""
    _, _, last = refusal.rpartition(": ")
    return one_line(last if last.startswith("GPU ") else refusal, 300)


def list_blocked_hosts(result: PreflightResult) -> dict[str, Unmeasured]:
    """Return the hosts that findings about them alone keep from being measured."""
    return {
        finding.hosts[0]: Unmeasured(
            finding.hosts[0], None, f"{finding.code}: {one_line(finding.message)}", finding.fix
        )
        for finding in result.findings
        if blocks_launch(finding) and len(finding.hosts) == 1
    }
