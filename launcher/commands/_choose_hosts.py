"""A launch on N hosts of a longer list: the first that nothing stops; other good ones are its spares."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.commands._launch_request import LaunchSession, RunRequest
from launcher.commands._launch_sync import expect_tree
from launcher.commands._preflight_report import print_report
from launcher.config.command_config import count_ranks
from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError, GpusBusy, HostInterrupted, LaunchRefused
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import is_busy, preflight_hosts
from launcher.launch.request import LaunchRequest
from launcher.terminal.screen import Screen
from launcher.text import count_noun, group_alike, one_line
from preflight.checks.finding import blocks_launch

_LONGEST_REASON = 240
_MOST_ALIKE = 2  # hosts that fail in the same words before one more ends the search


def choose_hosts(
    request: RunRequest, launch: LaunchRequest, session: LaunchSession
) -> tuple[RunRequest, LaunchRequest]:
    """Return both for the hosts that the launch takes, as if these had been named.

    All listed hosts are checked at once. Raises LaunchRefused where too few can be used.
    """
    nodes, listed, config = request.nodes, request.entries, request.config
    options, screen = session.options, session.screen
    if not nodes or (nodes == len(listed) and not request.left_out):
        return request, launch
    from launcher.restart.replacement import HostAssignment, list_host_faults  # noqa: PLC0415 - most launches do without it

    with session.before.phase("preflight"):
        result = preflight_hosts(launch if config.sync is None else expect_tree(config, launch))
    faults = {fault.host: fault.why for fault in list_host_faults(HostAssignment(listed), result)}
    good = [entry for entry in listed if entry.name not in faults]
    busy = [entry for entry in listed if entry.name in faults and _only_busy(entry, result)]
    fillers = busy if options.wait is not None else _with_leftovers(busy, result)
    taken = [*good, *fillers][:nodes]
    if len(taken) < nodes:
        print_report(screen, result, verbose=options.verbose)
        raise _refusal(request, faults, busy, len(good)).with_document(encode_preflight(result))
    chosen = tuple(entry for entry in listed if entry in taken)
    names = [entry.name for entry in chosen]
    left_out = {host: why for host, why in faults.items() if host not in names}
    for line in _reasons(left_out):
        screen.notify(f"left out: {line}")
    screen.notify(f"this launch takes {nodes} of {_count_named(request)}: {fold_hosts(names)}")
    job = request.job
    if config.command is not None:
        job, chosen = count_ranks(config.command, job, chosen)
    others = tuple(entry for entry in good if entry not in taken)
    request = replace(request, config=replace(config, job=job), entries=chosen)
    left_out = {**request.left_out, **left_out}
    request = replace(request, others=others, spares=(*others, *request.spares), left_out=left_out)
    return request, replace(launch, entries=chosen, job=job)


def leave_out(
    listed: RunRequest, chosen: RunRequest, error: GpulaunchError, screen: Screen
) -> RunRequest | None:
    """Return the list without chosen hosts that failed before the start, None where no others do.

    Nor has it hosts that were bad already: they are not asked again, nor is a person who said no to one. None
    also where several have failed in the same words: then the launch is at fault, and would fail on all.
    """
    bad = {entry.name for entry in chosen.entries} & set(error.hosts)
    if not bad or len(chosen.others) < len(bad) or isinstance(error, HostInterrupted):
        return None
    words = {error.message.removeprefix(f"{host}: ") for host in bad}
    alike = [host for host, why in listed.left_out.items() if why.removeprefix(f"{host}: ") in words]
    if len(alike) >= _MOST_ALIKE:
        return None
    screen.notify(f"left out: {one_line(error.message, _LONGEST_REASON)}")
    left_out = {**chosen.left_out, **dict.fromkeys(sorted(bad), error.message)}
    rest = tuple(each for each in listed.entries if each.name not in left_out)
    return replace(listed, entries=rest, left_out=left_out)


def _only_busy(entry: HostEntry, result: PreflightResult) -> bool:
    """Whether nothing but GPUs in use stops a launch on this host."""
    stopping = [finding for finding in result.list_findings(entry.name) if blocks_launch(finding)]
    return bool(stopping) and entry.name not in result.errors and all(map(is_busy, stopping))


def _with_leftovers(busy: list[HostEntry], result: PreflightResult) -> list[HostEntry]:
    """Return the hosts on which leftovers block the launch: they are ended, or asked about, before it."""
    if not busy:
        return []
    from launcher.cleanup.before_launch import list_leftovers  # noqa: PLC0415 - most launches find none

    return [each for each in busy if any(one.blocks_launch for one in list_leftovers((each,), result.facts))]


def _reasons(faults: Mapping[str, str]) -> Iterator[str]:
    for why, hosts in group_alike((why, host) for host, why in faults.items()).items():
        yield f"{fold_hosts(hosts)}: {one_line(why, _LONGEST_REASON)}"


def _count_named(request: RunRequest) -> str:
    """Return how many hosts the user has named, those that were left out before too, in words."""
    return count_noun(len({*request.left_out, *(entry.name for entry in request.entries)}), "host")


def _refusal(
    request: RunRequest, faults: Mapping[str, str], busy: list[HostEntry], good: int
) -> LaunchRefused:
    """Return why too few hosts can be used, host by host, and what to type."""
    lines = "\n".join(_reasons(faults))
    may_wait = bool(busy) and good + len(busy) >= request.nodes
    ways = (
        *(("add --wait 2h: the run starts once the GPUs are free",) if may_wait else ()),
        *((f"--nodes {good} takes the good {'one' if good == 1 else 'ones'}",) if good else ()),
        "name more hosts with --hosts",
    )
    kind = GpusBusy if may_wait else LaunchRefused
    found = f"{good} of {_count_named(request)} can be used, and the run needs {request.nodes}"
    return kind(
        f"nothing was started: {found}\n{lines}", f"do what the findings say, or {', or '.join(ways)}"
    )
