"""A search for runs on hosts: of hosts.yaml, this machine, and those of runs that this machine knows."""

import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from launcher.config.host_access_args import complete_commands
from launcher.config.inventory import ALL, LOCALHOST, HostEntry, Inventory
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.errors import AgentProtocolError, GpulaunchError, HostError, HostsUnusable
from launcher.planning.run_record import read_run_records
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.rundir.run_id import LAST, is_job_id, is_run_id, is_run_suffix, names_run
from launcher.rundir.state_schema import validate_runs
from launcher.runs.expected_run import BY_WORD, RunMeaning, select_run
from launcher.runs.gone_hosts import note_answers
from launcher.runs.merged_runs import merge_node_runs
from launcher.runs.remote_run import RemoteRun
from launcher.runs.request import ANSWER_S, send_request
from launcher.terminal.slow_hosts import name_slow_hosts
from launcher.text import group_alike, one_line
from preflight import regex as re
from preflight.errors import BadInput
from preflight.frozen import dataclass

_NOT_REACHED = ("HOST001", "HOST002", "HOST003", "HOST004")
_WORD = re.compile(r"[\w.-]+")
_FINGERPRINT = re.compile(r"SHA256:[\w+/=]+")
_NUMBER = re.compile(r"\d+")
_MOST_OF_A_HOST = 1000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What the hosts reported, and which could not be asked."""

    runs: tuple[RemoteRun, ...]
    errors: Mapping[str, HostError]
    strays: Mapping[str, tuple[str, ...]]  # run id -> what of it is not believed
    other_hosts: Mapping[str, tuple[str, ...]]  # host -> its runs, reported by hosts that share its home


def search_hosts(
    inventory: Inventory, words: Sequence[str], *, without: Collection[str] = ()
) -> tuple[HostEntry, ...]:
    """Return the hosts named; without names those of hosts.yaml, this machine and its known launches.

    `without` are hosts of those launches that are not asked, see `list_gone_hosts`.
    """
    if words:
        return inventory.resolve(words)
    known = {LOCALHOST: inventory.lookup(LOCALHOST)}
    if inventory.hosts:
        known.update({entry.name: entry for entry in inventory.resolve((ALL,))})
    for launched in sorted(read_run_records().values(), key=lambda record: record.at, reverse=True):
        for entry in launched.entries:
            if entry.name not in without:
                known.setdefault(entry.name, inventory.hosts.get(entry.name, entry))
    return tuple(known.values())


def search_all(
    entries: Iterable[HostEntry],
    open_entry: OpenConnection,
    *,
    width: int,
    listed: Iterable[str] = (),
    on_interrupt: Callable[[HostEntry], GpulaunchError] | None = None,
    timeout_s: float = ANSWER_S,
    **request: object,
) -> SearchResult:
    """Ask every host for its runs, side by side. `request` is what mode list of the supervisor takes.

    `listed` are the names of hosts.yaml: no other host reports for these, though they are not asked.
    `on_interrupt` is as in `fanout`.
    """
    problems: dict[str, HostError] = {}

    def one(entry: HostEntry) -> tuple[HostEntry, dict[str, Any], float]:
        with open_entry(entry) as connection:
            answer = send_request(connection, entry.python, {"mode": "list", **request}, timeout_s=timeout_s)
        now = time.time()
        answer, problem = validate_runs(answer)
        if problem:  # its other runs are good, and so are other hosts'
            detail = f"what it reports of a run is not understood: {one_line(problem, 160)}"
            problems[entry.name] = AgentProtocolError(entry.name, detail)
        return entry, answer, now

    hosts = tuple(entries)
    hint = "" if on_interrupt is None else "; Ctrl-C shows what came"
    slow = partial(name_slow_hosts, hint=hint)
    results = fanout(one, hosts, width=width, reopens=True, on_interrupt=on_interrupt, on_slow=slow)
    good = [result for result in results if not isinstance(result, GpulaunchError)]
    errors = {
        entry.name: result if isinstance(result, HostError) else HostError(entry.name, result.message)
        for entry, result in zip(hosts, results, strict=True)
        if isinstance(result, GpulaunchError)
    }
    names = {*listed, *(entry.name for entry in hosts)}
    records = read_run_records()
    merged = merge_node_runs(good, records, names=names)
    answered = {entry.name for entry, _, _ in good} - problems.keys()
    other_hosts = find_runs_of_other_hosts(answer for _, answer, _ in good)
    elsewhere = set(chain.from_iterable(other_hosts.values()))  # that an answer lacks these says nothing
    now = time.time()
    runs = tuple(run if run.run_id in elsewhere else run.with_answers(answered, now) for run in merged.runs)
    records = {run_id: record for run_id, record in records.items() if run_id not in elsewhere}
    note_answers(records, runs, answered=answered, errors=errors, complete="prefix" not in request)
    return SearchResult(runs, problems | errors, merged.strays, other_hosts)


def find_in_runs(
    word: str,
    entries: Iterable[HostEntry],
    open_entry: OpenConnection,
    *,
    width: int,
    warn: Callable[[str], None],
    listed: Iterable[str] = (),
    meaning: RunMeaning = BY_WORD,
) -> RemoteRun:
    """Return the run that a word means on these hosts.

    `warn` is given what hosts say of that run that is not believed; `listed` is as in
    `search_all`. Raises BadInput; HostError or HostsUnusable where the run may be on a host that did not
    answer; RunNotKept for an expected one that its hosts do not have.
    """
    hosts = tuple(entries)
    is_start = not (word == LAST or is_run_suffix(word) or is_job_id(word))
    wanted: dict[str, Any] = {"prefix": word} if is_start else {}
    found = search_all(hosts, open_entry, width=width, listed=listed, ended=True, tail=0, **wanted)
    if len(found.errors) == len(hosts):
        raise next(iter(found.errors.values()))
    for run_id, strays in found.strays.items():
        if word == LAST or names_run(word, run_id):
            for words in strays:
                warn(f"{run_id}: {words}")
    chosen = choose_run(word, hosts, found, meaning)
    silent = {name: error for name, error in found.errors.items() if error.code in _NOT_REACHED}
    return replace(chosen, silent=silent)


def choose_run(
    word: str, hosts: Sequence[HostEntry], found: SearchResult, meaning: RunMeaning = BY_WORD
) -> RemoteRun:
    """Return the run that a word means of what hosts have reported. Raises as `find_in_runs`."""
    refusal: BadInput | None = None
    try:
        chosen = select_run(found.runs, word, meaning.choose)
    except BadInput as error:
        chosen, refusal = None, error
    names = [entry.name for entry in hosts]
    if meaning.expected is not None:
        absence = meaning.expected.explain_absence(found.runs, chosen, names, found.errors)
        if absence is not None:
            raise absence
    if chosen is not None:
        return chosen
    if found.runs and refusal is not None:
        raise refusal
    raise _not_found(word, [name for name in names if name not in found.errors], found)


def _not_found(word: str, answered: Sequence[str], found: SearchResult) -> GpulaunchError:
    """Return that no host which answered has a run of this name; with silent ones that is not known."""
    where = fold_hosts(answered)
    what = "no run" if word == LAST else f'no run called "{word}"'
    owners = fold_hosts(
        host for host, run_ids in found.other_hosts.items() if any(names_run(word, each) for each in run_ids)
    )
    if owners:
        silent = f"; these did not answer: {fold_hosts(found.errors)}" if found.errors else ""
        what = f"{what} of its own was found on {where}; one is in its home, of {owners}{silent}"
        return BadInput(what, "name its own host with --hosts, or in hosts.yaml")
    log = f"gpulaunch diagnose {shlex.quote(word)} reads that file; " if Path(word).is_file() else ""
    fix = (
        f"{log}gpulaunch ps --all lists your runs, gpulaunch top shows what others run;"
        " --hosts HOST looks on a host that is not in hosts.yaml"
    )
    if not found.errors:
        return BadInput(f"{what} was found on {where}", fix)
    lines = [f"{what} was found on {where}, and others did not answer", *explain_unanswered(found.errors)]
    return HostsUnusable(tuple(found.errors.values()), "\n".join(lines), fix)


def explain_unanswered(
    errors: Mapping[str, GpulaunchError],
    access_words: Sequence[str] = (),
    fixes: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield why hosts did not answer, by host; reasons that differ in numbers or keys only are one.

    The fix of the first of them follows, where no line before had it; `fixes` are better ones for some, and
    `access_words` the options that commands in them need.
    """
    shown = {""}

    def kind(host: str, reason: str) -> str:
        words = _WORD.findall(_FINGERPRINT.sub("KEY", reason))
        return _NUMBER.sub("#", " ".join("HOST" if word == host else word for word in words))

    for hosts in group_alike((kind(host, error.detail), host) for host, error in errors.items()).values():
        bare = {errors[host].detail.replace(host, "") for host in hosts}
        more = " (the others alike)" if len(bare) > 1 else ""
        error = errors[hosts[0]]
        yield f"{fold_hosts(hosts)}: {error.detail}{more}"
        fix = _fix_of_all({host: fixes.get(host, errors[host].fix) for host in hosts})
        fix = complete_commands(fix, () if hosts[0] in fixes else access_words)
        if fix not in shown:
            yield f"  fix: {fix}"
            shown.add(fix)


def _fix_of_all(fixes: Mapping[str, str]) -> str:
    """Return the fix of the first host; of all where each ends with its own host, as a command does."""
    fix = next(iter(fixes.values()))
    commands = {each.removesuffix(f" {name}") for name, each in fixes.items()}
    if len(fixes) == 1 or len(commands) > 1 or fix in commands:
        return fix
    return f"{commands.pop()} {shlex.quote(format_host_range(fixes))}"


def find_runs_of_other_hosts(answers: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return {host: run ids} of hosts whose own answers are not among these; how they are is theirs to say.

    A host that reports runs under its own name means a container of it, or another host that has its name.
    """
    all_answers = list(answers)
    answering = {str(answer.get("host") or "") for answer in all_answers}
    found: dict[str, set[str]] = {}
    for answer in all_answers:
        for host, run_ids in (answer.get("other_hosts") or {}).items():
            if host not in answering:
                found.setdefault(host, set()).update(run_ids)
            elif host == answer.get("host"):
                name = f"{host} (a container, or another host of this name)"
                found.setdefault(name, set()).update(run_ids)
    names = {
        host: sorted(filter(is_run_id, run_ids))[:_MOST_OF_A_HOST] for host, run_ids in sorted(found.items())
    }
    return {host: tuple(run_ids) for host, run_ids in names.items() if run_ids}
