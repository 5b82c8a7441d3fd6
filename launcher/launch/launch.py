"""`gpulaunch run`: preflight, plan, start every node, follow all of them to the end."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from launcher.config.node_sets import format_host_range
from launcher.errors import GpusBusy, LaunchRefused
from launcher.follow.outcome import Outcome
from launcher.follow.peer_check import SSH_PORT, PeerAddress
from launcher.follow.phases import Phase
from launcher.host_checks.preflight import preflight
from launcher.host_checks.result import PreflightResult
from launcher.launch.request import LaunchRequest
from launcher.planning.main_address_and_port import choose_main_address, list_taken_ports
from launcher.planning.plan import Plan
from launcher.planning.planner import build_plan
from launcher.planning.run_record import list_run_ids, note_in_record
from launcher.rundir.run_id import make_run_id
from launcher.terminal.screen import Screen
from preflight import regex as re
from preflight.checks.finding import Finding, Severity, blocks_launch
from preflight.decide.usable_gpus import select_gpus
from preflight.facts.script import ScriptAnalysis
from preflight.frozen import dataclass

PORT_ATTEMPTS = 3
BUSY_CODES = frozenset({"PROC001", "PROC002", "PROC005", "MODE002"})  # passes when others are done
_CLAIMED = "PROC005"  # the host refuses a second claim of a GPU, whatever the client ignores
_ENDS_LEFTOVERS = re.compile(r"gpulaunch clean-zombies(?: -\S+ \S+)* (?!-)\S+?(?:;|$)")
_OF_A_GPU = re.compile(r"gpu\d+")


@dataclass(frozen=True, slots=True)
class CheckedLaunch:
    """A preflight, and all that a plan needs."""

    launch: LaunchRequest
    result: PreflightResult
    script: ScriptAnalysis | None

    def plan(self, avoid_ports: frozenset[int] = frozenset()) -> Plan:
        """Return a plan of its own name. Raises LaunchRefused and the refusals of planning."""
        hosts = [(entry, self.result.facts[entry.name]) for entry in self.launch.entries]
        plan = build_plan(
            hosts,
            self.launch.job,
            run_id=make_run_id(self.launch.job.name, list_run_ids()),
            script=self.script,
            sent=self.launch.preflight.sent,
            findings=self.result.findings,
            avoid_ports=avoid_ports | list_taken_ports(self.result.reach),
        )
        before = self.launch.follow.disconnect.before_stop
        env = before.environment() if before is not None else {}
        nodes = (
            replace(node, files=(*node.files, *self.launch.extra_files), env={**env, **node.env})
            for node in plan.nodes
        )
        return replace(plan, nodes=tuple(nodes))

    def targets(self) -> dict[str, PeerAddress]:
        """Return where the others would meet each host; one that lives answers, or refuses."""
        hosts = [(entry, self.result.facts[entry.name]) for entry in self.launch.entries]
        found: dict[str, PeerAddress] = {}
        for entry, facts in hosts:
            others = [each for each in hosts if each[0] is not entry]
            with suppress(LaunchRefused):
                address, _ = choose_main_address([(entry, facts), *others])
                found[entry.name] = address, entry.port or SSH_PORT
        return found

    def refusal(self) -> LaunchRefused | None:
        """Return why the launch may not happen, None when it may."""
        stopping = [finding for finding in self.result.findings if blocks_launch(finding)]
        if not stopping:
            return None
        codes = ",".join(dict.fromkeys(finding.code for finding in stopping))
        found = f"nothing was started: preflight found what stops this launch ({codes})"
        in_spite = f", or launch in spite of that with --ignore {codes}" if _CLAIMED not in codes else ""
        from launcher.host_checks.evaluation import name_others  # noqa: PLC0415 - the preflight has loaded it

        others = name_others(self.launch.entries, {host for each in stopping for host in each.hosts})
        others = f", or {others}" if others else ""
        use = self.result.would_use
        if use is not None and use.problem:
            in_spite = "; --ignore does not help, no ranks can be placed"
        if all(is_busy(finding) for finding in stopping):
            free = self._count_free_gpus(stopping)
            fewer = (
                f"--gpus {free} takes free ones alone{' on each host' * (len(self.launch.entries) > 1)}, or "
            )
            wait = f"add --wait 2h: the run starts once the GPUs are free{others}{in_spite}"
            return GpusBusy(found, _advise_on_leftovers(stopping) + fewer * (free > 0) + wait)
        return LaunchRefused(found, f"do what the findings say{others}{in_spite}")

    def _count_free_gpus(self, busy: list[Finding]) -> int:
        """Return how many GPUs of every host a launch may have that none of these findings is about."""
        job = self.launch.job
        if isinstance(job.gpus, tuple) or not all(_OF_A_GPU.fullmatch(each.subject) for each in busy):
            return 0
        counts = []
        for entry in self.launch.entries:
            held = {each.subject for each in busy if entry.name in each.hosts}
            selection = select_gpus(self.result.facts[entry.name], job, entry.gpus)
            counts.append(sum(f"gpu{index}" not in held for index in selection.candidates))
        return min(counts, default=0)

    def raise_if_blocked(self) -> None:
        """Raise LaunchRefused when findings stop the launch."""
        refusal = self.refusal()
        if refusal is not None:
            raise refusal


def _advise_on_leftovers(stopping: Sequence[Finding]) -> str:
    """Return what ends the dead holders among these: without it a wait has no end."""
    hosts = {host for each in stopping if _ENDS_LEFTOVERS.match(each.fix) for host in each.hosts}
    command = f"gpulaunch clean-zombies {shlex.quote(format_host_range(sorted(hosts)))}"
    return f"{command} ends what dead runs left, or " if hosts else ""


def note_clean_end(outcome: Outcome) -> None:
    """Note in the local record that a run without restarts is over, where no host has anything of it left."""
    if outcome.verdict != "detached" and outcome.cleanup.is_clean:
        note_in_record(outcome.plan.run_id, over=True)


def is_busy(finding: Finding) -> bool:
    """Return whether a finding that stops a launch is only about GPUs that others use."""
    return finding.code in BUSY_CODES and finding.severity is Severity.CRITICAL


def raise_if_blocked(launch: LaunchRequest, on_result: Callable[[PreflightResult], None]) -> CheckedLaunch:
    """Preflight the hosts. Raises the HostError of one that cannot be used, or LaunchRefused."""
    prepared = preflight_or_raise(launch, on_result)
    prepared.raise_if_blocked()
    return prepared


def preflight_or_raise(launch: LaunchRequest, on_result: Callable[[PreflightResult], None]) -> CheckedLaunch:
    """Preflight the hosts, whatever is found. Raises the HostError of one that cannot be used."""
    result = preflight_hosts(launch)
    on_result(result)
    for error in result.errors.values():
        raise error
    return CheckedLaunch(launch, result, result.script)


def preflight_hosts(launch: LaunchRequest) -> PreflightResult:
    """Preflight the hosts; what cannot be used is among the findings and errors."""
    options = replace(launch.preflight, while_waiting=_prepare_start)
    return preflight(
        launch.entries, launch.job, launch.connections.borrow, options=options, probe=launch.probe
    )


def _prepare_start() -> None:
    """Load and pack what a start needs, while the hosts work on their answers."""
    import launcher.launch.attempt  # noqa: F401, PLC0415
    from launcher.follow.protocol import pack_programs  # noqa: PLC0415

    pack_programs()


@contextmanager
def say_unstarted(screen: Screen) -> Iterator[None]:
    """Say that no run was started where a signal ends what comes before one."""
    try:
        yield
    except KeyboardInterrupt:
        screen.notify("no run was started")
        raise


def launch_and_follow(
    prepared: CheckedLaunch, screen: Screen, given_up: Callable[[Outcome], object] | None = None
) -> Outcome:
    """Launch and follow to the end; on a port that another process took meanwhile, again on another one.

    `given_up` takes the outcome of each attempt that another one follows: its ranks may have left something.
    """
    from launcher.launch.attempt import Attempt  # noqa: PLC0415 - imported while the hosts answered

    avoid: frozenset[int] = frozenset()
    attempt = 1
    launch = prepared.launch
    while True:
        plan = prepared.plan(avoid)
        attempted = Attempt(launch, plan, screen, number=attempt, targets=prepared.targets())
        outcome = attempted.start_and_follow()
        if attempt == PORT_ATTEMPTS or not attempted.port_was_taken(outcome):
            return outcome
        if given_up is not None:
            given_up(outcome)
        attempt += 1
        avoid |= {plan.main_port}
        if (spec := launch.restart) is not None:
            spec = replace(spec, known={**spec.known, "after": plan.run_id})
            launch = replace(launch, restart=spec)
        launch = replace(
            launch, earlier_phases=(*launch.earlier_phases, Phase(f"attempt {attempt - 1}", outcome.seconds))
        )
        screen.notify(
            f"port {plan.main_port} was taken by another process; starting again on another one", bad=True
        )
