"""gpulaunch clean-zombies: show what is left over on hosts, end it after a yes, prove that it is gone."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import click

from launcher.cleanup import clean, render
from launcher.commands._answer import confirm, json_option
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, add_host_options, add_hosts_argument
from launcher.commands._param_types import DurationParam, Function, flag
from launcher.config.disconnect_options import MAX_GRACE_S
from launcher.config.host_access_args import complete_commands
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.local_entries import require_linux
from launcher.errors import BadInput, GpulaunchError, HostInterrupted, PathRefused
from launcher.exit_codes import ExitCode
from launcher.host_checks.collection import name_awaited_hosts
from launcher.launch.signals import outlive_terminal, report_stop_signals
from launcher.local.home import user_state_dir
from launcher.remote.agent import AgentRequest, GatherOptions, GatherResult, gather_facts
from launcher.remote.fanout import fanout
from launcher.runs.search import explain_unanswered
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.output import echo, echo_json, echo_lines
from launcher.terminal.slow_hosts import name_slow_hosts
from preflight.facts.host import HostFacts, ProcessTable
from preflight.frozen import dataclass
from preflight.job import DEFAULT_MAIN_PORT
from preflight.leftovers.classify import ClassifiedProcess
from preflight.leftovers.selection import CleanFilter

RECHECK_DELAY_S = 5.0  # long enough for a live rank to use some CPU


@dataclass(frozen=True, slots=True)
class CleanZombiesOptions(HostOptions):
    """The values of what `clean-zombies` takes."""

    yes: bool = False
    dry_run: bool = False
    gpus: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()
    include_suspect: bool = False
    all_users: bool = False
    grace: float = clean.TERM_GRACE_S
    as_json: bool = False


def _only(option: str, kind: click.IntRange, metavar: str, text: str) -> Callable[[Function], Function]:
    """Return an option that may be given several times: `gpus` of --gpu, `ports` of --port and so on."""
    name = f"{option.removeprefix('--')}s"
    return click.option(option, name, type=kind, multiple=True, metavar=metavar, help=f"{text}; repeatable.")


@click.command("clean-zombies")
@add_hosts_argument
@flag("--yes", "-y", "End everything shown as `end?` without asking.")
@flag("--dry-run", "Only show; end nothing.")
@_only("--gpu", click.IntRange(0), "N", "Only holders of this GPU index")
@_only("--port", click.IntRange(1, 65535), "N", "Only holders of this port")
@_only("--pid", click.IntRange(1), "PID", "Only this process; may be one that lives")
@flag("--include-suspect", "Also end what looks left over without proof.")
@flag("--all-users", "Judge other users' processes too (root only).")
@click.option(
    "--grace",
    type=DurationParam(0, MAX_GRACE_S),
    default="10s",
    show_default=True,
    help="From SIGTERM to SIGKILL.",
)
@json_option
@add_host_options
def command(hosts: tuple[str, ...], **given: Any) -> int:
    """End what dead runs left on HOSTS (default: localhost): ranks, DataLoader workers, port holders.

    What a dead run of gpulaunch left is ended; what else is proven left over is ended after a yes. Live,
    foreign and system processes never are. Exit code 0: nothing that may be ended is left, nor a --pid;
    1: something is.
    """
    options = CleanZombiesOptions(**given)
    access = open_host_access(options)
    entries = access.resolve(hosts or (LOCALHOST,))
    if not hosts and access.inventory.hosts:
        line = "only this machine is inspected; gpulaunch clean-zombies all takes those of hosts.yaml"
        echo(complete_commands(line, access.inventory.access_words), err=True)
    require_linux(entries, "gpulaunch clean-zombies HOST")
    if options.pids and len(entries) > 1:
        raise BadInput("--pid names a process of one host, but several hosts are named", "name one host")
    return clean_hosts(access, entries, options)


def clean_hosts(access: HostAccess, entries: tuple[HostEntry, ...], options: CleanZombiesOptions) -> int:
    """Show, confirm, end and report on these hosts; return the exit code."""
    clean_filter = CleanFilter(options.gpus, options.ports, options.pids, options.include_suspect)
    clean_options = clean.CleanOptions(clean_filter, all_users=options.all_users, term_grace_s=options.grace)

    def print_lines(lines: Iterable[StyledLine]) -> None:
        if not options.as_json:  # the document says it all
            echo_lines(lines)

    return _CleanSession(access, clean_options, print_lines).run(entries, options)


@dataclass(frozen=True, slots=True)
class _CleanSession:
    """One run of the command over several hosts."""

    access: HostAccess
    clean_options: clean.CleanOptions
    print_lines: Callable[[Iterable[StyledLine]], None]

    @report_stop_signals()
    def run(self, entries: tuple[HostEntry, ...], options: CleanZombiesOptions) -> int:
        """Inspect, show, confirm, end, report; return the exit code."""
        found, errors = self._look(entries)
        for host in found:
            clean.refuse_unknown(host.facts, self.clean_options.filter)
        words = self.access.inventory.access_words
        chosen = ((host.facts, host.selection) for host in found)
        self.print_lines(render.render_selections(chosen, self.clean_options.filter, words))
        self._print_errors(errors)
        approved = {} if options.dry_run else self._approve(found, options)
        outlive_terminal()
        cleaned, failed = self._end([host for host in found if approved.get(host.entry.name)], approved)
        errors |= failed
        for done in cleaned.values():
            self.print_lines(render.render_result(done))
        self._print_errors(failed)
        code = _exit_code(found, cleaned, errors, options.pids, dry_run=options.dry_run)
        if options.as_json:
            parts = {
                host.entry.name: render.encode_host(host.facts, host.selection, cleaned.get(host.entry.name))
                for host in found
            }
            failures = [
                (name, error.code, error.message, complete_commands(error.fix, words))
                for name, error in errors.items()
            ]
            echo_json(render.encode_clean(parts, failures, code))
        return code

    def _print_errors(self, errors: dict[str, GpulaunchError]) -> None:
        self.print_lines(explain_unanswered(errors, self.access.inventory.access_words))

    def _request(self, entry: HostEntry) -> AgentRequest:
        ports = self.clean_options.filter.ports or (DEFAULT_MAIN_PORT,)
        return AgentRequest(
            host=entry.name, ports=ports, pids=self.clean_options.filter.pids, skip=clean.SKIPPED_FACTS
        )

    def _look(
        self, entries: tuple[HostEntry, ...]
    ) -> tuple[list[clean.HostLeftovers], dict[str, GpulaunchError]]:
        def gather() -> GatherResult:
            with name_awaited_hosts(entries, None) as on_done:
                how = GatherOptions(width=self.access.width, on_done=on_done, on_slow=name_slow_hosts)
                return gather_facts(entries, self._request, self.access.open, how)

        first = gather()
        earlier: dict[str, HostFacts] = {}
        if self.clean_options.filter.include_suspect and first.facts:
            time.sleep(RECHECK_DELAY_S)
            earlier = first.facts
            first = gather()
        found = [
            clean.find_leftovers(entry, first.facts[entry.name], self.clean_options, _table(earlier, entry))
            for entry in entries
            if entry.name in first.facts
        ]
        return found, dict(first.errors)

    def _approve(
        self, found: list[clean.HostLeftovers], options: CleanZombiesOptions
    ) -> dict[str, tuple[ClassifiedProcess, ...]]:
        """Return what may be ended on each host: what is certain, and the rest after a yes."""
        to_confirm = sum(len(host.selection.needs_confirmation) for host in found)
        may_ask = to_confirm > 0 and not options.as_json and sys.stdin.isatty()
        yes = options.yes or (may_ask and confirm(render.render_question(to_confirm)))
        if to_confirm and not yes:
            self.print_lines((f"{to_confirm} left as they are; add --yes to end what is shown as `end?`",))
        return {host.entry.name: host.list_approved(yes=yes) for host in found}

    def _end(
        self, hosts: list[clean.HostLeftovers], approved: dict[str, tuple[ClassifiedProcess, ...]]
    ) -> tuple[dict[str, clean.CleanResult], dict[str, GpulaunchError]]:
        def end(host: clean.HostLeftovers) -> clean.CleanResult:
            with self.access.open(host.entry) as connection:
                request = self._request(host.entry)
                done = clean.clean_host(
                    connection, host, approved[host.entry.name], self.clean_options, request
                )
            try:
                clean.write_audit(done, approved[host.entry.name], user_state_dir())
            except (OSError, PathRefused) as error:
                # The host has its own audit log; a full local disk must not hide what was done.
                echo(f"{done.host}: the local audit log could not be written: {error}", err=True)
            return done

        def interrupted(host: clean.HostLeftovers) -> GpulaunchError:
            return clean.explain_doubt(HostInterrupted, host.entry.name, approved[host.entry.name])

        results = fanout(end, hosts, width=self.access.width, on_interrupt=interrupted)
        named = {host.entry.name: result for host, result in zip(hosts, results, strict=True)}
        cleaned = {name: result for name, result in named.items() if isinstance(result, clean.CleanResult)}
        failed = {name: result for name, result in named.items() if isinstance(result, GpulaunchError)}
        return cleaned, failed | {name: done.lost for name, done in cleaned.items() if done.lost is not None}


def _table(earlier: dict[str, HostFacts], entry: HostEntry) -> ProcessTable | None:
    facts = earlier.get(entry.name)
    return facts.processes if facts is not None and isinstance(facts.processes, ProcessTable) else None


def _exit_code(
    found: list[clean.HostLeftovers],
    cleaned: dict[str, clean.CleanResult],
    errors: dict[str, GpulaunchError],
    named: tuple[int, ...],
    *,
    dry_run: bool,
) -> int:
    """Return the exit code; `named` are the pids that the user has given."""
    if errors:
        return max(ExitCode.UNREACHABLE, *(error.exit_code for error in errors.values()))
    if any(clean.list_unreadable(host.facts) for host in found):
        return ExitCode.NEGATIVE  # what is left on the host is not known
    if any(each.process.pid in named for host in found for each in host.selection.kept):
        return ExitCode.NEGATIVE  # this very process was to end
    if dry_run:
        return ExitCode.NEGATIVE if any(host.list_approved(yes=True) for host in found) else 0
    ended = {(name, r.pid) for name, done in cleaned.items() for r in done.killed if r.is_gone}
    to_confirm = {
        (host.entry.name, each.process.pid) for host in found for each in host.list_approved(yes=True)
    }
    return ExitCode.NEGATIVE if to_confirm - ended else 0
