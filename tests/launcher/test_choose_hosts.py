"""A launch on N hosts of a longer list: whom it takes, whom it leaves out, and what it says of too few."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.cli import run_command_line
from launcher.commands import _choose_hosts, _launch, _launch_checks
from launcher.commands._choose_hosts import choose_hosts
from launcher.commands._host_access import HostAccess
from launcher.commands._launch_request import LaunchSession, RunRequest
from launcher.config.command_config import count_ranks, settle_command
from launcher.config.inventory import HostEntry, Inventory
from launcher.config.run_config import RunConfig, build_command_config, build_config_from_script
from launcher.errors import GpusBusy, LaunchRefused, SyncFailed
from launcher.follow.phases import Stopwatch
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.remote.connection_pool import ConnectionPool
from launcher.restart import host_set
from launcher.terminal.live_screen import choose_screen
from launcher.transports.base import Connection
from preflight.job import Job
from tests.launcher.restart_cases import JOB, entries, preflighted
from tests.launcher.test_gpu_wait import run_options
from tests.preflight.golden_cases import all_cases

BUSY = next(case for case in all_cases() if str(case) == "PROC005/bad").data["facts"]
HELD = {"claims": [{**BUSY["claims"][0], "gpu_uuid": "GPU-b-0"}]}
NO_TORCH: dict[str, Any] = {"python.packages": {}}
LIST = entries("a", "b", "c", "d")


def open_nothing(entry: HostEntry) -> Connection:
    raise AssertionError(entry.name)


class Choice:
    """The choice among hosts whose preflight is a literal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.said = io.StringIO()

    def of(
        self,
        nodes: int,
        overlays: dict[str, Any],
        *,
        listed: tuple[HostEntry, ...] = LIST,
        spares: tuple[HostEntry, ...] = (),
        options: dict[str, Any] | None = None,
        left_out: dict[str, str] | None = None,
        **facts: Any,
    ) -> RunRequest:
        """Choose; return what the launch is then, whose hosts are the request's."""
        given = {"wait": None, "sync": False, **(options or {})}
        result = preflighted(listed, overlays, job=JOB, **facts)
        self._patch.setattr(_choose_hosts, "preflight_hosts", lambda _: result)
        config = build_config_from_script("train.py")
        access = HostAccess(Inventory(), open_nothing, 1)
        request = RunRequest(
            replace(config, job=JOB), listed, access, spares, None, nodes, left_out=left_out or {}
        )
        launch = LaunchRequest(listed, JOB, ConnectionPool(open_nothing))
        screen = choose_screen(self.said, plain=True, all_ranks=False)
        session = LaunchSession(run_options(**given), screen, Stopwatch())
        chosen, launch = choose_hosts(request, launch, session)
        assert (launch.entries, launch.job) == (chosen.entries, chosen.job)
        return chosen


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Choice:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Choice(monkeypatch)


def names(hosts: tuple[HostEntry, ...]) -> str:
    return "".join(host.name for host in hosts)


def test_the_first_that_nothing_stops_are_taken_and_others_are_spares(choice: Choice) -> None:
    found = choice.of(2, {"c": NO_TORCH}, unreachable=("a",), spares=entries("s"))
    assert (names(found.entries), names(found.spares)) == ("bd", "s")
    said = choice.said.getvalue()
    assert "left out: a: cannot be used: no answer\n" in said
    assert "left out: c: " in said
    assert "this launch takes 2 of 4 hosts: b,d" in said
    found = choice.of(2, {}, spares=entries("s"))
    assert (names(found.entries), names(found.spares)) == ("ab", "cds")


def test_a_host_that_was_left_out_before_is_one_of_those_that_the_user_named(choice: Choice) -> None:
    choice.of(1, {}, listed=entries("b"), left_out={"a": "no disk"})
    assert "this launch takes 1 of 2 hosts: b\n" in choice.said.getvalue()
    with pytest.raises(LaunchRefused, match="0 of 1 host can be used, and the run needs 2"):
        choice.of(2, {}, listed=entries("b"), unreachable=("b",))


def test_hosts_with_one_reason_are_one_line(choice: Choice) -> None:
    choice.of(1, {}, unreachable=("a", "b", "c"))
    assert choice.said.getvalue().count("left out") == 1
    assert "left out: a,b,c: cannot be used: no answer" in choice.said.getvalue()


def test_all_of_the_list_is_as_if_no_number_was_given(choice: Choice) -> None:
    for nodes in (0, 4):
        assert names(choice.of(nodes, {}, unreachable=("a",)).entries) == "abcd"
    assert not choice.said.getvalue()


def test_hosts_in_use_are_taken_only_by_a_launch_that_waits(choice: Choice) -> None:
    held = {"b": HELD}
    with pytest.raises(GpusBusy) as refused:
        choice.of(3, held, unreachable=("a",))
    assert "2 of 4 hosts can be used, and the run needs 3\na: cannot be used: no answer\nb: gpu0: " in str(
        refused.value
    )
    assert refused.value.fix == (
        "do what the findings say, or add --wait 2h: the run starts once the GPUs are free,"
        " or --nodes 2 takes the good ones, or name more hosts with --hosts"
    )
    with pytest.raises(GpusBusy):  # held by a live process, which is nothing to clean
        choice.of(3, held, unreachable=("a",), options={"clean": True})
    waits = {"wait": 60.0}
    assert names(choice.of(3, held, unreachable=("a",), options=waits).entries) == "bcd"
    assert names(choice.of(2, held, options=waits).entries) == "ac"
    assert "left out: b: gpu0: " in choice.said.getvalue()


def test_too_few_are_refused_with_the_reason_of_each(choice: Choice) -> None:
    with pytest.raises(LaunchRefused) as refused:
        choice.of(2, {"b": NO_TORCH}, unreachable=("a", "c"))
    assert not isinstance(refused.value, GpusBusy)
    assert "1 of 4 hosts can be used, and the run needs 2\na,c: cannot be used: no answer\nb: " in str(
        refused.value
    )
    assert "--nodes 1 takes the good one" in refused.value.fix
    assert refused.value.document is not None
    with pytest.raises(LaunchRefused) as refused:
        choice.of(2, {}, unreachable=("a", "b", "c", "d"))
    assert "--nodes" not in refused.value.fix


def test_a_host_that_the_main_host_is_cut_off_from_waits_for_no_one(choice: Choice) -> None:
    with pytest.raises(LaunchRefused) as refused:
        choice.of(3, {}, listed=entries("a", "b", "c", "d"), unreachable=("b", "d"), options={"wait": 9.0})
    assert not isinstance(refused.value, GpusBusy)
    assert names(choice.of(2, {}, listed=entries("a", "b", "c"), cut=("b",)).entries) == "ac"


def test_a_command_counts_the_ranks_of_the_hosts_taken() -> None:
    command = build_command_config(("mpirun -np 8 python train.py",)).command
    assert command is not None
    named = settle_command(command, Job(gpus="auto"), LIST[:2], names_hosts=True)
    job, pool = settle_command(command, Job(gpus="auto"), LIST, names_hosts=True, nodes=2)
    assert (job, pool) == (named[0], LIST)
    assert job.command.ranks_per_host == 4
    assert settle_command(command, Job(gpus="auto"), LIST, names_hosts=True)[0].command.ranks_per_host == 2
    assert count_ranks(command, job, LIST[1:3])[0].command.ranks_per_host == 4


def test_a_spare_of_the_list_takes_the_place_of_one_that_goes_bad_before_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(
        host_set, "preflight_hosts", lambda launch: preflighted(launch.entries, cut=("b",), job=JOB)
    )
    config = build_config_from_script("train.py")
    access = HostAccess(Inventory(), open_nothing, 1)
    request = RunRequest(
        replace(config, job=JOB), entries("a", "b"), access, entries("c"), None, 2, entries("c")
    )
    launch = LaunchRequest(request.entries, JOB, ConnectionPool(open_nothing))
    said = io.StringIO()
    session = LaunchSession(
        run_options(wait=None), choose_screen(said, plain=True, all_ranks=False), Stopwatch()
    )
    prepared, left_out = _launch_checks.check_launch(request, launch, session)
    assert (names(prepared.launch.entries), list(left_out)) == ("ac", ["b"])
    assert "b is left out: cannot connect to a" in said.getvalue()


def test_another_host_takes_the_place_of_one_that_fails_before_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked: list[str] = []

    def preflight(launch: LaunchRequest) -> Any:
        asked.append(names(launch.entries))
        return preflighted(launch.entries, job=JOB, unreachable=("a",) if "a" in asked[-1] else ())

    def prepare(request: RunRequest, launch: LaunchRequest, *_: object) -> Any:
        failing = {entry.name for entry in launch.entries} & set(dying)
        if failing:
            error = SyncFailed(f"{min(failing)}: no space left")
            error.hosts = (min(failing),)
            raise error
        return CheckedLaunch(launch, preflight(launch), None), launch, {}

    monkeypatch.setattr(_choose_hosts, "preflight_hosts", preflight)
    monkeypatch.setattr(_launch, "_prepared_in_turn", prepare)
    access = HostAccess(Inventory(), open_nothing, 1)
    said = io.StringIO()

    def taken(config: RunConfig, job: Job = JOB) -> RunRequest:
        request = RunRequest(replace(config, job=job), LIST, access, (), None, 2)
        launch = LaunchRequest(LIST, job, ConnectionPool(open_nothing))
        screen = choose_screen(said, plain=True, all_ranks=False)
        session = LaunchSession(run_options(wait=None), screen, Stopwatch())
        chosen, prepared, _ = _launch._choose_and_prepare(request, launch, session)
        assert prepared.launch.entries == chosen.entries
        return chosen

    dying = ["b"]
    script = build_config_from_script("train.py")
    found = taken(script)
    assert names(found.entries) == "cd"
    assert dict(found.left_out) == {"a": "cannot be used: no answer", "b": "b: no space left"}
    assert "left out: b: no space left" in said.getvalue()
    assert asked[:2] == ["abcd", "cd"]  # who was bad is not asked again, nor a person about it
    assert said.getvalue().count("left out: a") == 1
    command = build_command_config(("mpirun -np 4 -H a:2,b:2,c:3,d:2 python train.py",))
    assert command.command is not None
    job, _ = settle_command(command.command, Job(gpus="auto"), LIST, names_hosts=True, nodes=2)
    counts = taken(replace(command, job=job), job).job.command.ranks_per_host
    assert counts == {"c": 3, "d": 1}  # of the two that are left, not of the first two
    dying = ["b", "c"]  # of two good ones that are left one is not enough
    with pytest.raises(SyncFailed):
        taken(script)


def test_a_launch_that_fails_alike_on_three_hosts_is_not_tried_on_all() -> None:
    def failed(host: str, why: str) -> SyncFailed:
        error = SyncFailed(f"{host}: {why}")
        error.hosts = (host,)
        return error

    listed = RunRequest(
        build_config_from_script("train.py"), LIST, HostAccess(Inventory(), open_nothing, 1), (), None, 1
    )
    screen = choose_screen(io.StringIO(), plain=True, all_ranks=False)

    def without(listed: RunRequest, host: str, why: str) -> RunRequest | None:
        others = tuple(each for each in listed.entries if each.name != host)
        chosen = replace(listed, entries=entries(host), others=others)
        return _choose_hosts.leave_out(listed, chosen, failed(host, why), screen)

    first = without(listed, "a", "cannot make /nowhere")
    assert first is not None
    second = without(first, "b", "cannot make /nowhere")
    assert second is not None
    assert without(second, "c", "cannot make /nowhere") is None
    assert without(second, "c", "no space left") is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hosts", "a,b", "--nodes", "3"), "--nodes 3: more than the hosts of this launch (2: a,b)"),
        (("--nodes", "2"), "--nodes 2: more than the hosts of this launch (1: localhost)"),
        (("--set", "nodes=4", "--hosts", "a"), "nodes: 4: more than the hosts of this launch (1: a)"),
    ],
)
def test_more_than_the_list_has_is_refused_before_any_host_is_asked(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    assert run_command_line(["run", *words, "train.py"]) == 2
    assert said in capsys.readouterr().err


def test_submit_refuses_a_run_of_more_nodes_than_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("script: train.py\nnodes: 3\nslurm: {nodes: 1, spare_nodes: 1}\n")
    assert run_command_line(["submit", "-c", "./job.yaml", "--dry-run"]) == 2
    assert "nodes: 3: more than the nodes of the job that slurm: asks for" in capsys.readouterr().err
    assert run_command_line(["submit", "-c", "./job.yaml", "--dry-run", "--set", "nodes=2"]) == 0
