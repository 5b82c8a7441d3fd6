"""The body of gpulaunch preflight: ask hosts, judge them, say what a launch on them would use."""

import json
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, Transport
from launcher.commands._job_hosts import find_job, reach_job
from launcher.commands._preflight_report import todays_report
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.local_entries import LOCAL_NAMES, resolve_local_entries
from launcher.config.rank_counts import resolve_rank_counts
from launcher.error_codes import read_codes
from launcher.errors import BadInput
from launcher.host_checks.answers import JsonLines, TextAnswers, summary_json
from launcher.host_checks.fact_cache import FactCache
from launcher.host_checks.live_table import HostTable
from launcher.host_checks.preflight import (
    PreflightOptions,
    PreflightResult,
    evaluate_facts,
    preflight,
    reachability_probe,
)
from launcher.host_checks.render_json import preflight_json
from launcher.host_checks.render_text import report_lines
from launcher.local.atomic_write import check_writable, write_atomic
from launcher.planning.plan import ScriptFile
from launcher.planning.script_file import script_after_sync, script_to_send
from launcher.remote.agent import GatherResult
from launcher.report.deep import DeepReport, deep_json, deep_lines
from launcher.terminal.json_text import json_text
from launcher.terminal.output import echo, echo_json_text, echo_lines, no_utf8
from launcher.version import version
from preflight.frozen import dataclass
from preflight.job import GpuRequest, Job, PrecisionRequest

_JSON_DEPTH = 4
"""Down to a line for each finding of each host."""
_STDOUT = "-"


@dataclass(frozen=True, slots=True)
class _PreflightRequest:
    """What the hosts are to be judged for."""

    job: Job
    hosts: tuple[str, ...]
    sent: ScriptFile | None = None
    arriving: ScriptFile | None = None  # the script in the tree that a sync will bring
    ignore: frozenset[str] = frozenset()
    base: Path = LOCAL_NAMES
    names_hosts: bool = True


@dataclass(frozen=True, slots=True)
class PreflightCommandOptions(HostOptions):
    """The values of what `preflight` takes."""

    config: str | None
    gpus: str
    port: int | None
    precision: PrecisionRequest | None
    ignore: tuple[str, ...]
    separately: bool
    as_json: bool
    as_jsonl: bool
    facts: bool
    page: Path | None
    verbose: bool
    recordings: tuple[Path, ...]
    smi_files: tuple[Path, ...]
    transport: Transport | None
    prolog: bool
    deep: bool
    seconds: float
    step_timeout: float
    save_expect: bool
    max_age: float | None  # seconds

    @property
    def is_document_alone(self) -> bool:
        """Whether standard output is for one document."""
        return self.as_json or self.as_jsonl or self.is_page_alone

    @property
    def is_page_alone(self) -> bool:
        """Whether standard output is for the page."""
        return str(self.page) == _STDOUT


def run_preflight(hosts: tuple[str, ...], options: PreflightCommandOptions) -> int:
    """Check hosts as the command line says, report, and return the exit code.

    Raises BadInput, GpulaunchError and OSError.
    """
    if options.deep and (options.recordings or options.smi_files or options.prolog):
        raise BadInput("--deep measures hosts", "leave out --from, --from-smi and --prolog")
    if options.save_expect and not options.deep:
        raise BadInput("--save-expect saves what --deep measures", "add --deep")
    if options.max_age is not None and (options.recordings or options.smi_files or options.prolog):
        raise BadInput("--max-age is about answers of hosts", "leave out --from, --from-smi and --prolog")
    if options.prolog:
        _check_prolog(options)
        from launcher.commands._prolog import run_prolog  # noqa: PLC0415 - only for a scheduler's prolog

        return run_prolog(hosts, options, read_codes(options.ignore))
    if options.page is not None:
        _check_page(options.page, options)
    request = _request(hosts, options)
    preflight_options = PreflightOptions(
        ignore=read_codes(options.ignore) | request.ignore,
        as_one_launch=not options.separately,
        width=options.parallel,
        sent=request.sent,
        script_after_sync=request.arriving,
        cache=None if options.max_age is None else FactCache(options.max_age),
    )
    if request.arriving is not None and not (options.as_json or options.as_jsonl or options.is_page_alone):
        echo_lines([f"sync: hosts are judged as if {request.arriving.name} were on them already"])
    deep: DeepReport | None = None
    if options.recordings or options.smi_files:
        result = _from_files(request, options, preflight_options)
    else:
        ways = open_host_access(options)
        result, deep = _from_hosts(request, ways, preflight_options, options)
    if preflight_options.cache is not None and preflight_options.cache.problem:
        echo(preflight_options.cache.problem, err=True)
    _show(result, options, deep)
    return result.exit_code


def _request(hosts: tuple[str, ...], options: PreflightCommandOptions) -> _PreflightRequest:
    if options.config is None:
        job = Job(gpus="auto")
        if options.gpus:
            job = replace(job, gpus=parse_gpus(options.gpus))
        if options.port:
            job = replace(job, main_port=options.port)
        if options.precision:
            job = replace(job, precision=options.precision)
        return _PreflightRequest(job, hosts or (LOCALHOST,), names_hosts=bool(hosts))
    from launcher.config.run_config import Overrides, load_run_config  # noqa: PLC0415 - only for a run config

    overrides = Overrides(
        hosts=hosts,
        gpus=options.gpus,
        port=str(options.port or ""),
        precision=options.precision or "",
    )
    config = load_run_config(options.config, overrides)
    return _PreflightRequest(
        config.job,
        config.hosts,
        script_to_send(config),
        script_after_sync(config),
        config.ignore,
        config.base,
        config.names_hosts,
    )


def parse_gpus(text: str) -> GpuRequest:
    """Return what --gpus says: a word, a count, or a list with commas (`0,` is GPU 0). Raises BadInput."""
    if text in ("all", "none", "auto"):
        return text  # type: ignore[return-value]  # mypy does not narrow by `in`
    if text.isdigit():
        return int(text)
    words = [word.strip() for word in text.strip("[]").split(",") if word.strip()]
    if not words or not all(word.isdigit() or word.startswith(("GPU-", "MIG-")) for word in words):
        raise BadInput(
            f'--gpus: "{text}"', "expected all, none, auto, a count, or a list such as 0,2 or GPU-..."
        )
    return tuple(int(word) if word.isdigit() else word for word in words)


def _from_hosts(
    request: _PreflightRequest,
    ways: HostAccess,
    preflight_options: PreflightOptions,
    options: PreflightCommandOptions,
) -> tuple[PreflightResult, DeepReport | None]:
    slurm_job = find_job(options.transport, names_hosts=request.names_hosts)
    if slurm_job is not None:
        ways, entries = reach_job(ways, slurm_job, options.transport, request.base)
    else:
        entries = resolve_local_entries(ways.inventory.resolve(request.hosts), request.job, request.base)
    try:
        job = resolve_rank_counts(request.job, ways.inventory)
        answers = _answers(job, preflight_options, options) if len(entries) > 1 or options.as_jsonl else None
        with HostTable(entries) if answers is None else nullcontext(answers) as live:
            result = preflight(
                entries,
                job,
                ways.open,
                options=replace(preflight_options, shards=ways.shards),
                probe=reachability_probe(width=ways.width),
                on_done=live.host_done,
            )
        if not options.deep:
            return result, None
        from launcher.commands._deep import measure_after  # noqa: PLC0415 - loads all of a launch

        return measure_after(
            result, job, ways, options, ignore=preflight_options.ignore, to_stderr=options.is_document_alone
        )
    finally:
        ways.close()


def _answers(
    job: Job, preflight_options: PreflightOptions, options: PreflightCommandOptions
) -> TextAnswers | JsonLines | None:
    """Return what prints answers as they come; None at a terminal, which has a table, and for --json."""
    if options.as_jsonl:
        return JsonLines(job, preflight_options, facts=options.facts)
    quiet = options.as_json or options.is_page_alone or sys.stdout.isatty()
    return None if quiet else TextAnswers()


def _from_files(
    request: _PreflightRequest, options: PreflightCommandOptions, preflight_options: PreflightOptions
) -> PreflightResult:
    if options.recordings and options.smi_files:
        raise BadInput("--from and --from-smi are two sources", "judge them one after the other")
    if options.smi_files:
        from preflight.smi_reports import parse_smi  # noqa: PLC0415 - only for saved files

        facts = [
            parse_smi(path.read_text(encoding="utf-8", errors="replace"), path.stem)
            for path in options.smi_files
        ]
    else:
        from launcher.remote.recording import load_recording  # noqa: PLC0415 - only for saved files

        facts = [load_recording(path) for path in options.recordings]
    job = request.job
    if options.smi_files and job.gpus == "auto":
        job = replace(
            job, gpus="all"
        )  # who hands in what nvidia-smi said asks about GPUs, even if it found none
    named = {host.host: host for host in facts}
    if len(named) < len(facts):
        raise BadInput("two files are of the same host", "judge them one after the other")
    entries = [HostEntry(name) for name in named]
    together = preflight_options.as_one_launch and len(facts) == 1
    how = replace(preflight_options, as_one_launch=together, from_file=bool(options.smi_files))
    if options.as_jsonl:
        lines = JsonLines(job, how, facts=options.facts)
        for entry in entries:
            lines.host_done(entry, named[entry.name])
    return evaluate_facts(entries, GatherResult(named, {}), job, options=how)


def _check_prolog(options: PreflightCommandOptions) -> None:
    """Refuse what --prolog would leave out: it prints one line, and asks nothing but this node."""
    given = {
        "--html": options.page is not None,
        "--json": options.as_json,
        "--jsonl": options.as_jsonl,
        "--facts": options.facts,
        "--from": bool(options.recordings),
        "--from-smi": bool(options.smi_files),
        "--config": bool(options.config),
    }
    odd = [name for name, is_given in given.items() if is_given]
    if odd:
        raise BadInput(
            f"--prolog prints one line about this node; {', '.join(odd)} would have no effect",
            "leave out --prolog, or the other option",
        )


def _check_page(page: Path, options: PreflightCommandOptions) -> None:
    """Find out before hosts are asked whether the page can be written. Raises BadInput and OSError."""
    if not options.is_page_alone:
        check_writable(page)
    elif options.as_json or options.as_jsonl:
        raise BadInput("--html - and --json would both be on standard output", "give --html a file")


def _show(result: PreflightResult, options: PreflightCommandOptions, deep: DeepReport | None = None) -> None:
    if options.as_jsonl:
        echo_json_text(json.dumps(summary_json(result)))
    elif options.as_json:
        document = preflight_json(result, facts=options.facts)
        if deep is not None:
            document["deep"] = deep_json(deep)
        echo_json_text(json_text(document, depth=_JSON_DEPTH))
    elif not options.is_page_alone:
        if deep is not None:
            echo_lines(deep_lines(deep_json(deep), ascii_only=no_utf8()))
        files = options.recordings or options.smi_files
        report = report_lines if files else todays_report
        echo_lines(report(result, verbose=options.verbose))
    if options.page is not None:
        _write_page(result, options.page, None if deep is None else deep_json(deep))


def _write_page(result: PreflightResult, target: Path, deep: dict[str, Any] | None) -> None:
    from launcher.report.preflight_page.page import render_preflight_page  # noqa: PLC0415 - only for a page

    page = render_preflight_page(result, made_at=time.time(), version=version(), deep=deep)
    if str(target) == _STDOUT:
        echo_lines(page.removesuffix("\n").split("\n"))
        return
    write_atomic(target, page)
    echo(f"{target}: {len(page) / 1024:.0f} KiB", err=True)
