"""The body of gpulaunch preflight: ask hosts, judge them, say what a launch on them would use."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._job_hosts import find_job, reach_job
from launcher.commands._preflight_options import PreflightCommandOptions
from launcher.config.inventory import LOCALHOST, Inventory, resolve_rank_counts
from launcher.config.inventory_reader import load_inventory
from launcher.config.local_entries import LOCAL_NAMES, resolve_local_entries
from launcher.error_codes import read_codes
from launcher.errors import BadInput
from launcher.host_checks.fact_cache import FactCache
from launcher.host_checks.live_table import HostTable
from launcher.host_checks.preflight import build_reachability_probe, preflight
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.result import PreflightResult
from launcher.local.atomic_write import check_writable
from launcher.local.gzip_data import DamagedGzipError, TooLargeError, decompress_gzip, read_within
from launcher.remote.agent import GatherResult
from launcher.terminal.output import echo, echo_lines
from preflight.frozen import dataclass
from preflight.job import DEFAULT_MAIN_PORT, GpuRequest, Job

if TYPE_CHECKING:
    from launcher.config.run_config import RunConfig
    from launcher.host_checks.answers import JsonLines, TextAnswers
    from launcher.report.deep import DeepReport
    from preflight.facts.host import HostFacts

_MOST_OUTPUT = 1 << 30  # bytes of a log with outputs of nvidia-smi


@dataclass(frozen=True, slots=True)
class _PreflightRequest:
    """What the hosts are to be judged for."""

    job: Job
    hosts: tuple[str, ...]
    options: PreflightOptions
    base: Path = LOCAL_NAMES
    names_hosts: bool = True
    typed: tuple[str, ...] = ()  # hosts that the command line names
    config: "RunConfig | None" = None


def run_preflight(hosts: tuple[str, ...], options: PreflightCommandOptions) -> int:
    """Check hosts, report, and return the exit code. Raises BadInput, GpulaunchError and OSError."""
    if options.prolog:
        from launcher.commands._prolog import run_prolog  # noqa: PLC0415 - only for a scheduler's prolog

        return run_prolog(hosts, options, read_codes(options.ignore))
    if options.page is not None:
        if not options.is_page_alone:
            check_writable(options.page)
        elif options.as_json or options.as_jsonl:
            raise BadInput("--html - and --json would both be on standard output", "give --html a file")
    if options.recordings or options.smi_files:
        options, hosts = _with_further_files(hosts, options), ()
    request = _request(hosts, options)
    preflight_options, arriving = request.options, request.options.script_after_sync
    if arriving is not None and not (options.as_json or options.as_jsonl or options.is_page_alone):
        echo_lines([f"sync: hosts are judged as if {arriving.name} were on them already"])
    deep: DeepReport | None = None
    if options.recordings or options.smi_files:
        result = _from_files(request, options, preflight_options)
    else:
        access = open_host_access(options)
        preflight_options = replace(preflight_options, access_words=access.inventory.access_words)
        result, deep = _from_hosts(request, access, preflight_options, options)
    if preflight_options.cache is not None and preflight_options.cache.problem:
        echo(preflight_options.cache.problem, err=True)
    from launcher.commands._preflight_output import show_preflight  # noqa: PLC0415 - loaded while hosts answered

    show_preflight(result, options, deep)
    return result.exit_code


def _request(hosts: tuple[str, ...], options: PreflightCommandOptions) -> _PreflightRequest:
    how = PreflightOptions(
        ignore=read_codes(options.ignore),
        as_one_launch=not options.separately,
        width=options.parallel,
        cache=None if options.max_age is None else FactCache(options.max_age),
    )
    if options.config is None:
        job = Job(
            gpus=parse_gpus(options.gpus) if options.gpus else "auto",
            main_port=options.port or DEFAULT_MAIN_PORT,
            precision=options.precision or "auto",
        )
        return _PreflightRequest(job, hosts or (LOCALHOST,), how, names_hosts=bool(hosts), typed=hosts)
    from launcher.config.config_overrides import Overrides  # noqa: PLC0415 - only for a run config
    from launcher.config.run_config import load_run_config  # noqa: PLC0415 - only for a run config
    from launcher.planning.script_file import start_in_tree  # noqa: PLC0415 - as above

    typed = {"main_port": ("--port", options.port), "precision": ("--precision", options.precision)}
    keys = {key: (option, str(value)) for key, (option, value) in typed.items() if value}
    overrides = Overrides(hosts=hosts, hosts_from="HOST", gpus=options.gpus, keys=keys)
    written = load_run_config(options.config, overrides)
    config, _ = start_in_tree(written, ())
    how = _with_sent_files(replace(how, ignore=how.ignore | config.ignore), config)
    return _PreflightRequest(config.job, config.hosts, how, config.base, config.names_hosts, hosts, written)


def _with_sent_files(how: PreflightOptions, config: "RunConfig") -> PreflightOptions:
    from launcher.planning.script_file import find_tree, read_script_after_sync, read_script_to_send  # noqa: PLC0415 - only for a run config

    sent, arriving, tree = read_script_to_send(config), read_script_after_sync(config), find_tree(config)
    return replace(how, sent=sent, script_after_sync=arriving, tree=tree, makes_workdir=tree is not None)


def parse_gpus(text: str) -> GpuRequest:
    """Return what --gpus says: a word, a count, or a list (`0,` is GPU 0). Raises ConfigError."""
    from launcher.config.host_fields import gpus  # noqa: PLC0415 - only for the option
    from launcher.config.yaml_tree import ConfigIssues, YamlNode  # noqa: PLC0415 - as above

    mistakes = ConfigIssues()
    words = text.strip("[]").split(",") if text.startswith("[") else ()
    value = tuple(YamlNode(word.strip(), "--gpus") for word in words) or text
    request: GpuRequest = gpus(("all", "auto", "none"), count=True).read(YamlNode(value, "--gpus"), mistakes)
    mistakes.raise_if_any()
    return request


def _import_output() -> None:
    """Import what shows the result, while hosts work on their answers."""
    import launcher.commands._preflight_output  # noqa: F401, PLC0415


def _from_hosts(
    request: _PreflightRequest,
    access: HostAccess,
    preflight_options: PreflightOptions,
    options: PreflightCommandOptions,
) -> "tuple[PreflightResult, DeepReport | None]":
    slurm_job = find_job(options.transport, names_hosts=request.names_hosts)
    if slurm_job is not None:
        access, entries = reach_job(access, slurm_job, options.transport, request.base, typed=request.typed)
    else:
        entries = resolve_local_entries(access.resolve(request.hosts), request.job, request.base)
    job = request.job
    if request.config is not None:
        from launcher.planning.script_file import start_in_tree  # noqa: PLC0415 - only for a run config

        config, entries = start_in_tree(request.config, entries)
        job, preflight_options = config.job, _with_sent_files(preflight_options, config)
    try:
        job = resolve_rank_counts(job, access.inventory)
        answers = _answers(job, preflight_options, options) if len(entries) > 1 or options.as_jsonl else None
        with HostTable(entries) if answers is None else nullcontext(answers) as live:
            result = preflight(
                entries,
                job,
                access.open,
                options=replace(preflight_options, shards=access.shards, while_waiting=_import_output),
                probe=build_reachability_probe(width=access.width),
                on_done=live.take_answer,
            )
        if not options.deep:
            return result, None
        from launcher.commands._deep import measure_after  # noqa: PLC0415 - loads all of a launch

        return measure_after(
            result, job, access, options, ignore=preflight_options.ignore, to_stderr=options.is_document_alone
        )
    finally:
        access.close()


def _answers(
    job: Job, preflight_options: PreflightOptions, options: PreflightCommandOptions
) -> "TextAnswers | JsonLines | None":
    """Return what prints answers as they come; None at a terminal, which has a table, and for --json."""
    from launcher.host_checks.answers import JsonLines, TextAnswers  # noqa: PLC0415 - one host at a terminal needs neither

    if options.as_jsonl:
        return JsonLines(job, preflight_options, facts=options.facts)
    quiet = options.as_json or options.is_page_alone or sys.stdout.isatty()
    return None if quiet else TextAnswers()


def _labels(paths: tuple[Path, ...]) -> list[str]:
    """Return a name for each file's host: the file's own, or its directory's where several are alike."""
    names = [path.stem for path in paths]
    places = [path.absolute().parent.name for path in paths]
    return places if len(set(names)) < len(names) and len(set(places)) == len(places) else names


def _saved_outputs(path: Path, name: str = "") -> "tuple[HostFacts, ...]":
    """Return the facts of each host of a saved output; one without a name is `name`. Raises BadInput."""
    from preflight.smi_reports import decode_text, parse_hosts  # noqa: PLC0415 - only for saved files

    piped = str(path) == "-"
    name = "stdin" if piped else name or path.stem
    try:
        with nullcontext(sys.stdin.buffer) if piped else path.open("rb") as stream:
            data = read_within(stream, _MOST_OUTPUT)
        return parse_hosts(decode_text(decompress_gzip(data)), name)
    except TooLargeError as refused:
        fix = "cut it to what nvidia-smi printed last (tail -c 1G FILE)"
        raise BadInput(f"{name if piped else path}: {refused}, expected output of nvidia-smi", fix) from None
    except DamagedGzipError as damage:
        raise BadInput(f"{name if piped else path}: {damage}", "copy it again, or unpack it first") from None
    except BadInput as refused:
        raise BadInput(f"{name if piped else path}: {refused.message}", refused.fix) from None


def _with_further_files(names: tuple[str, ...], options: PreflightCommandOptions) -> PreflightCommandOptions:
    """Return options with the files that a shell put behind the first (`--from *.json`). Raises BadInput."""
    option = "--from" if options.recordings else "--from-smi"
    for name in names:
        if not Path(name).is_file():
            raise BadInput(f"{option} judges files, and {name} is none", "leave it out")
    further = tuple(map(Path, names))
    if options.recordings:
        return replace(options, recordings=(*options.recordings, *further))
    return replace(options, smi_files=(*options.smi_files, *further))


def _from_files(
    request: _PreflightRequest, options: PreflightCommandOptions, preflight_options: PreflightOptions
) -> PreflightResult:
    from launcher.host_checks.evaluation import evaluate_facts  # noqa: PLC0415 - hosts are asked before it is loaded

    if options.smi_files:
        files = zip(options.smi_files, _labels(options.smi_files), strict=True)
        facts = [host for path, name in files for host in _saved_outputs(path, name)]
    else:
        from launcher.remote.recording import load_recording  # noqa: PLC0415 - only for saved files

        facts = [load_recording(path) for path in options.recordings]
    inventory = load_inventory(options.inventory) if options.inventory is not None else Inventory(None)
    job = resolve_rank_counts(request.job, inventory)
    if options.smi_files and job.gpus == "auto":
        # Who hands in what nvidia-smi said asks about GPUs, even if it found none.
        job = replace(job, gpus="all")
    named = {host.host: host for host in facts}
    if len(named) < len(facts):
        raise BadInput("two files are of the same host", "judge them one after the other")
    entries = [inventory.hosts.get(name) or replace(inventory.defaults, name=name) for name in named]
    together = preflight_options.as_one_launch and len(facts) == 1
    how = replace(preflight_options, as_one_launch=together, from_file=bool(options.smi_files))
    if options.as_jsonl:
        from launcher.host_checks.answers import JsonLines  # noqa: PLC0415 - as above

        lines = JsonLines(job, how, facts=options.facts)
        for entry in entries:
            lines.take_answer(entry, named[entry.name])
    return evaluate_facts(entries, GatherResult(named, {}), job, options=how)
