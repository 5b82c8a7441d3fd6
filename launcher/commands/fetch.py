"""gpulaunch fetch: copy the logs and the output of a run to this machine."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from launcher.commands import _run_options
from launcher.commands._answer import Answer, encode_error, json_option
from launcher.commands._option_rules import forbid_together
from launcher.commands._param_types import LocalPathParam, flag, host_option
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError
from launcher.exit_codes import ExitCode
from launcher.local.project import local_runs_dir
from launcher.local.safe_paths import join_below
from launcher.remote.fanout import fanout
from launcher.rundir.log_store import make_safe_name, run_directory
from launcher.runs.access import RunAccess
from launcher.runs.fetch import FetchResult, FileReceiver, fetch_host
from launcher.terminal.slow_hosts import name_slow_hosts
from launcher.terminal.transfer_progress import TransferProgress
from launcher.text import count_noun, format_size, group_alike, one_line
from preflight.errors import BadInput
from preflight.facts.json_codec import encode


@click.command("fetch")
@_run_options.run_argument
@click.option("--to", type=LocalPathParam(file_okay=False), help="Default: gpulaunch-runs/RUN.")
@host_option("Only this node's files, for an output directory that all nodes share.")
@flag("--logs-only", "Logs and records, not the output directory.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Only this of the output: a file, a directory or a pattern in it; repeatable.",
)
@json_option
@_run_options.run_options
@forbid_together("--logs-only", "--path", "leaves out the output")
def command(
    run: str,
    *,
    to: Path | None,
    host: str,
    logs_only: bool,
    paths: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Copy RUN's logs, records and output directory (TensorBoard events, checkpoints) to HOST/ below --to.

    With --path only that comes, such as --path 'checkpoint-5*'; of a run whose config names no output, a
    PATH is in the directory that the script ran in. What exists locally is not sent again; a file appears
    under its name once it is whole. After a broken connection the same command continues where it ended.
    Links are not followed. Exit code 1: a file could not be read, or no host has a PATH; 3: a host could not
    be reached.
    """
    options = _run_options.FoundRunOptions(**given)
    if not all(path.strip() for path in paths):
        raise BadInput("--path is empty", "give a file, a directory or a pattern; . is all of the output")
    _require_directory(to)
    access, found, reached = _run_options.open_named_run(run, options)
    plan = reached.plan
    nodes = _run_options.choose_nodes(reached, host)
    directory = to or run_directory(local_runs_dir(), plan.run_id)
    answer = Answer("gpulaunch.fetch/1", as_json=as_json)
    answer.words = _run_options.list_access_words(access, options)
    code = 0
    hosts = []
    results = _fetch_nodes(reached, nodes, directory, access.width, output=not logs_only, paths=paths)
    for (node, _), result in zip(nodes, results, strict=True):
        hosts.append({"host": node.host, **_encode_fetched(result, answer.words)})
    names = [_run_options.name_node(node.host, entry.name) for node, entry in nodes]
    for line in render_fetched(dict(zip(names, results, strict=True))):
        answer.say(line)
    for name, result in zip(names, results, strict=True):
        code = max(code, _print_problem(answer, name, result))
    answers = [result for result in results if isinstance(result, FetchResult)]
    # Many runs write checkpoints on one host of several.
    absent = [path for path in paths if answers and all(path in each.absent for each in answers)]
    for path in absent:
        where = f"in the output of {plan.run_id}, or where it ran without one"
        deeper = "" if path[0] in "/~" else f"; one directory deeper: --path {shlex.quote(f'*/{path}')}"
        answer.say(f"no host has {one_line(path)} {where}{one_line(deeper)}", err=True)
        code = max(code, ExitCode.NEGATIVE)
    answer.say(f"in {name_place(directory, [node.host for node, _ in nodes], paths)}")
    if not (logs_only or paths or found.record is None or found.record.has_output):
        answer.say(
            "logs and records only: the run did not say where its script writes (output: in its config);"
            " --path PATH fetches what it wrote in the directory that it ran in"
        )
    return answer.finish(code, run_id=plan.run_id, directory=str(directory), hosts=hosts)


def _fetch_nodes(
    to: RunAccess,
    nodes: list[_run_options.RunNode],
    directory: Path,
    width: int,
    *,
    output: bool,
    paths: tuple[str, ...],
) -> list[FetchResult | GpulaunchError]:
    """Fetch from all nodes side by side; say how far it is, and which of them a person waits for."""
    progress = TransferProgress(_run_options.warn, "fetch", f"received from {count_noun(len(nodes), 'host')}")
    begun: set[str] = set()

    def one(pair: _run_options.RunNode) -> FetchResult:
        node, entry = pair

        def count(size: int) -> None:
            begun.add(entry.name)
            progress.add(size)

        receiver = FileReceiver(join_below(directory, make_safe_name(node.host)), node.host, count)
        run = to.plan.run_id
        return fetch_host(run, entry, to.open, receiver, output=output, paths=paths, expect=progress.expect)

    def name_slow(late: Iterable[_run_options.RunNode]) -> None:
        name_slow_hosts([entry for _, entry in late if entry.name not in begun])

    with progress.report_progress():
        return fanout(one, nodes, width=width, on_slow=name_slow)


def _require_directory(directory: Path | None) -> None:
    """Raise BadInput for a --to that cannot take any file: each file of each host would report it."""
    if directory is None:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror or str(error)
        raise BadInput(f"--to {directory}: {reason}", "name a directory that you can write to") from None


def _encode_fetched(result: FetchResult | GpulaunchError, words: Sequence[str]) -> dict[str, Any]:
    if isinstance(result, GpulaunchError):
        return {**encode(FetchResult()), "error": encode_error(result, words)}
    return {**encode(result), "error": None}


def name_place(directory: Path, hosts: Sequence[str], paths: Sequence[str]) -> Path:
    """Return where the files of these hosts lie, those that `paths` names; HOST is each of several."""
    folders = [directory / make_safe_name(host) for host in hosts]
    place = folders[0] if len(folders) == 1 else directory / "HOST"
    below = [name for name in ("output", "workdir") if any((each / name).is_dir() for each in folders)]
    return place / " or ".join(below) if paths else place


def render_fetched(results: Mapping[str, FetchResult | GpulaunchError]) -> Iterator[str]:
    """Yield what came from the hosts, those with as many files together."""
    came = {host: result for host, result in results.items() if isinstance(result, FetchResult)}
    for files, hosts in group_alike((result.files, host) for host, result in came.items()).items():
        each, together = (" each", " together") if len(hosts) > 1 else ("", "")
        size = format_size(sum(came[host].bytes for host in hosts))
        words = f"{count_noun(files, 'file')}{each}, {size}{together}" if files else "nothing new"
        yield f"{fold_hosts(hosts)}: {words}"


def _print_problem(answer: Answer, host: str, result: FetchResult | GpulaunchError) -> int:
    if isinstance(result, GpulaunchError):
        answer.say(f"{host}: {one_line(result.detail, 400)}", err=True)
        if result.fix:
            answer.say(f"  fix: {result.fix}", err=True)
        return ExitCode.UNREACHABLE
    for words in result.skipped:
        answer.say(f"{host}: not read: {one_line(words, 300)}", err=True)
    return ExitCode.NEGATIVE if result.skipped else 0
