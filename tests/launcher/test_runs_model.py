"""What hosts tell of runs, put together: conditions, progress, choosing, the record of a launch."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.planning.run_record import build_run_record, read_record
from launcher.rundir.end_state import explain_end
from launcher.rundir.run_id import format_start, make_run_id, names_run
from launcher.rundir.state_schema import validate_runs
from launcher.runs.expected_run import select_run
from launcher.runs.merged_runs import merge_node_runs
from launcher.runs.render import encode_runs, render_runs
from launcher.runs.search import explain_unanswered
from launcher.terminal.step_progress import ProgressValues, read_tail
from preflight.errors import BadInput
from tests.launcher.found_runs import PLAN, A, B, found, node_run, over
from tests.launcher.run_plans import run_id

KEEPER = {"boot_id": "b-1", "supervisor": [7, 9]}


def test_the_nodes_of_a_run_are_put_together_whatever_host_told_them() -> None:
    (run,) = found((B, [node_run(node_rank=1)]), (A, [node_run()]))
    assert (run.status, run.total_nodes, run.started) == ("running", 2, 1000.0)
    assert (run.conflict, [node.entry for node in run.nodes]) == ("", [A, B])


@pytest.mark.parametrize(("said", "grace_s"), [((60, 5.0), 60.0), ((None, None), 10.0), ((-3, 1e9), 86400.0)])
def test_a_run_keeps_the_grace_it_was_launched_with(said: tuple[float | None, ...], grace_s: float) -> None:
    first, second = node_run(), node_run(node_rank=1)
    first["spec"]["grace_s"], second["spec"]["grace_s"] = said
    (run,) = found((A, [first]), (B, [second]))
    assert run.grace_s == grace_s


def test_a_host_asked_under_two_names_counts_once() -> None:
    both = found((A, [node_run(state=KEEPER)]), (HostEntry("localhost"), [node_run(state=KEEPER)]))
    assert [(len(run.nodes), run.nodes[0].entry, run.conflict) for run in both] == [(1, A, "")]


@pytest.mark.parametrize(
    ("node", "condition"),
    [
        (node_run(), "running"),
        (node_run(state={"phase": "stopping"}), "stopping"),
        (node_run(alive=False), "lost"),
        (node_run(state={}, alive=False), "lost"),
        (over(), "finished"),
        (over(ranks={"0": 3}), "failed"),
        (over(ranks={"0": -11}), "failed"),
        (over(ranks={"0": -15}, why="a reason without a cause"), "failed"),
        (over(ranks={}, launcher_code=1), "failed"),
        # By the cause that its supervisor named, whatever its sentence is.
        (over(ranks={"0": -15}, why="rank 0 took part no longer", cause="rank"), "failed"),
        (over(ranks={"0": 0}, why="nothing of it lived any more", cause="hang", requested=True), "failed"),
        (over(ranks={}, why="its keeper had to end it", cause="supervisor"), "failed"),
        (over(ranks={}, why="GPU x is claimed by run y", cause="refused"), "failed"),
        (over(ranks={"0": 1}, why="stopped: a peer failed", cause="request", requested=True), "stopped"),
        (over(ranks={"0": -15}, why="b was lost", cause="peer", requested=True), "failed"),
        (over(ranks={"0": -15}, why="the host is killed by its owner", cause="signal"), "stopped"),
        (over(ranks={"0": 1}, why="every client failed to come", cause="no_client"), "stopped"),
        (over(ranks={"0": 0}, why="", cause="exit"), "finished"),
        (over(ranks={"0": 0}, launcher_code=1, why="", cause="exit"), "failed"),
        (over(ranks={"0": 3}, why="", cause="a cause of later"), "failed"),
    ],
)
def test_what_has_become_of_a_node(node: dict[str, Any], condition: str) -> None:
    (run,) = found((A, [node]))
    assert run.status == condition


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ({"ranks": {"0": 0, "1": -6}}, "rank 1 was ended by signal 6 (SIGABRT)"),
        ({"ranks": {"0": 0, "1": -15}, "launcher_code": -2}, "the launcher was ended by signal 2 (SIGINT)"),
        ({"ranks": {"0": 0}, "launcher_code": 3}, "the launcher failed with exit code 3"),
        ({"ranks": {"0": 0}, "launcher_code": 0}, ""),
    ],
)
def test_a_nodes_end_has_the_signal_by_its_name(end: dict[str, Any], why: str) -> None:
    assert explain_end(end) == why


def test_a_run_is_over_when_all_its_nodes_are_and_its_first_failure_is_told() -> None:
    (run,) = found((A, [over(ranks={"0": -15}, ended=2001.0)]), (B, [over(node_rank=1, ranks={"1": 7})]))
    assert (run.status, run.why, run.ended) == ("failed", "rank 1 failed with exit code 7", 2001.0)
    (half,) = found((A, [over()]), (B, [node_run(node_rank=1)]))
    assert (half.status, half.ended) == ("running", None)


@pytest.mark.parametrize(
    "odd",
    [
        {"run_id": run_id("r2")},
        {**node_run("r2"), "run_id": "r2"},
        {**node_run("r2"), "run_id": "../../r2"},
        {**node_run("r2"), "run_id": 7},
        {**node_run("r2"), "spec": {"node_rank": "first"}},
        {**node_run("r2"), "spec": []},
        {**node_run("r2"), "spec": {"gpus": [{}]}},
        {**node_run("r2"), "tail": 5},
        {**node_run("r2"), "client_age_s": "long"},
        node_run("r2", state={"started": "today"}),
        node_run("r2", state={"ended": 10**400}),
        over("r2", ranks=[1]),
        over("r2", ranks={"0": "x"}),
        over("r2", ranks={"x": 0}),
        over("r2", remaining_pids=5),
        over("r2", why=[1]),
    ],
)
def test_an_odd_record_on_a_host_costs_nothing_but_itself(odd: dict[str, Any]) -> None:
    answer, problem = validate_runs({"runs": [node_run(), odd], "t": 5000.0, "user": "ana"})
    assert problem
    (run,) = merge_node_runs([(A, answer, 5000.0)]).runs
    assert run.run_id == run_id("r1")


@pytest.mark.parametrize("odd", [{"runs": {}}, {"t": "noon"}, {"gpu_use": {"GPU-1": [1]}}, {"gpu_use": 3}])
def test_an_answer_that_tells_nothing_is_a_problem_and_no_crash(odd: dict[str, Any]) -> None:
    answer, problem = validate_runs(odd)
    assert problem
    assert merge_node_runs([(A, answer, 5000.0)]).runs == ()


def test_what_a_supervisor_tells_is_understood() -> None:
    answer = {
        "runs": [node_run(), over("r2")],
        "t": 5000.0,
        "user": "ana",
        "gpu_use": {"GPU-1": [50, 1024.0]},
    }
    assert validate_runs(answer) == (answer, "")


def test_a_hosts_own_clock_is_not_believed() -> None:
    answer = {"runs": [node_run(state={"started": 1002.0 + 86400})], "t": 5000.0 + 86400, "user": "ana"}
    (run,) = merge_node_runs([(A, answer, 5000.0)]).runs
    assert run.started == 1002.0


@pytest.mark.parametrize("set_by_s", [-6 * 3600, 86400])
def test_a_run_is_found_and_dated_on_hosts_that_have_set_their_clocks_since(set_by_s: int) -> None:
    mine, other = node_run(state={"started": 1010.0 - set_by_s}), node_run(node_rank=1)
    listed, problem = validate_runs({"runs": [mine], "t": 5000.0, "user": "ana"})
    (run,) = merge_node_runs([(A, listed, 5000.0)]).runs
    assert (problem, run.status, run.started) == ("", "running", 1000.0)
    (run,) = merge_node_runs([(A, listed, 5000.0), (B, {"runs": [other]}, 5000.0)]).runs
    assert run.started == 1001.0, "by the host whose clock was not set"


@pytest.mark.parametrize(
    ("started", "ended", "ahead_s", "wrong"),
    [
        (1e9, 1e9 + 100, 0.0, ""),
        (1e9 - 200, 1e9 + 100, 0.0, ""),  # clocks of two machines
        (100.0, 200.0, 0.0, "before it was launched"),  # a host whose clock has no battery
        (1e9 - 1e7, 1e9 - 1e7 + 100, -1e7, ""),  # one that is still wrong by as much
        (1e9, 1e9 + 100, 1e8, "before it was launched"),  # one that was set forward since
        (1e9, 200.0, 0.0, "before it started"),
        (1e9, 1.2e9, 0.0, "in the future"),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_an_end_that_a_wrong_clock_has_dated_is_known(
    *, started: float, ended: float, ahead_s: float, wrong: str, recorded: bool
) -> None:
    mine = over()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(1e9 + (0 if recorded else 86400)))
    mine["run_id"] = f"r-{stamp}-0a1b2c"
    mine["state"].update(started=started, ended=ended)
    mine["spec"]["launch"] = (
        {**mine["spec"]["launch"], "run_id": mine["run_id"], "at": 1e9} if recorded else None
    )
    now = 1.1e9
    (run,) = merge_node_runs([(A, {"runs": [mine], "t": now + ahead_s}, now)]).runs
    assert (run.record is not None) is recorded
    assert run.explain_wrong_end(now) == (f"by the clock of a it ended {wrong}" if wrong else "")


def test_a_word_means_the_newest_a_whole_name_or_the_beginning_of_exactly_one() -> None:
    runs = found(
        (
            A,
            [
                node_run("x-1"),
                node_run("x-12", state={"started": 3.0}),
                node_run("y-1", state={"started": 4e3}),
            ],
        )
    )
    assert select_run(runs, "last").run_id == run_id("y-1")
    assert select_run(runs, run_id("x-1")).run_id == run_id("x-1")
    assert select_run(runs, "y").run_id == run_id("y-1")
    with pytest.raises(BadInput, match="it means 2 runs"):
        select_run(runs, "x")
    with pytest.raises(BadInput, match='no run called "z"'):
        select_run(runs, "z")
    with pytest.raises(BadInput, match="no run was found"):
        select_run((), "last")


@pytest.mark.parametrize(
    ("word", "means"),
    [("job", True), ("job-2026", True), ("4fc2de", True), ("fc2de", False), ("4fc2d", False), ("2de", False)],
)
def test_a_run_is_named_by_its_first_characters_or_its_last_part(word: str, means: bool) -> None:  # noqa: FBT001
    assert names_run(word, "job-20261125-210248-4fc2de") is means


def test_the_last_part_of_a_run_is_never_the_id_of_a_slurm_job() -> None:
    assert not any(make_run_id("job").rpartition("-")[2].isdecimal() for _ in range(300))


def test_a_run_sorts_behind_those_that_a_clock_which_was_set_back_has_named() -> None:
    def stamp(ahead_s: float) -> str:
        return time.strftime("%Y%m%d-%H%M%S", time.localtime(time.time() + ahead_s))

    earlier = [
        f"b-{stamp(3000.0)}-4fc2de",
        f"a-{stamp(3600.0)}-4fc2de",
        "other",
        "job-99999999-999999-4fc2de",
    ]
    named = make_run_id("job", earlier)
    assert format_start(earlier[1]) < format_start(named) < stamp(3602.0 + 60.0)
    behind_a_year = [f"a-{stamp(366 * 86400.0)}-4fc2de", f"a-{stamp(-3600.0)}-4fc2de"]
    assert format_start(make_run_id("job", behind_a_year)) <= stamp(0.0)


def test_a_run_sorts_behind_those_of_the_hour_that_autumn_has_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1792890000.0)  # 25 October 2026, 01:00 UTC
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        named = make_run_id("job", ["a-20261025-025959-4fc2de"])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert format_start(named) == "20261025-030000"


def test_a_record_tells_the_launch_again_and_nothing_that_may_be_secret() -> None:
    record = json.loads(json.dumps(build_run_record(PLAN, PLAN.nodes[0], (A, B))))
    launched = read_record(record)
    assert [node.first_rank for node in launched.plan.nodes] == [0, 1]
    assert [len(node.ranks.slots) for node in launched.plan.nodes] == [1, 2]
    assert (launched.plan.world_size, launched.plan.main_port) == (PLAN.world_size, PLAN.main_port)
    assert not {"argv", "env", "command"} & {key for node in record["nodes"] for key in node}


@pytest.mark.parametrize("broken", [{}, {"nodes": 3}, {"nodes": [{"host": "a"}]}, {"nodes": [[]]}])
def test_a_record_that_tells_no_launch_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_record(broken)


def test_a_records_names_and_numbers_are_those_of_a_launch() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"run_id": "/etc/cron.d/x"},
        {"run_id": "../" + PLAN.run_id},
        {"world_size": 4},
        {"nodes": []},
    )
    for change in changes:
        with pytest.raises(BadInput, match="cannot be right"):
            read_record({**build_run_record(PLAN, PLAN.nodes[0], (A, B)), **change})
    for name in ("-oProxyCommand=x", "con/../x", "..", "`id`", "a\nb", "a"):
        twisted = replace(PLAN, nodes=(PLAN.nodes[0], replace(PLAN.nodes[1], host=name)))
        with pytest.raises(BadInput, match="cannot be right"):
            read_record(build_run_record(twisted, twisted.nodes[0], ()))


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ("", ProgressValues(None, None, None)),
        ("step 3 loss: 0.5\nstep 4 loss: 0.25\n", ProgressValues(4, None, 0.25)),
        ("{'loss': 1.5, 'grad_norm': 2.0, 'epoch': 0.1}\n", ProgressValues(None, None, 1.5)),
        (
            " 30%|###   | 40/120 [00:12<00:24,  3.3it/s]\r 31%| | 41/120 [00:13<",
            ProgressValues(40, 120, None),
        ),
        ("global_step=7 train_loss=nan", ProgressValues(7, None, None)),
        ("Step 10 of 200, eval_loss: 3.0, val_loss=4", ProgressValues(10, 200, None)),
        ("loss_scale: 65536", ProgressValues(None, None, None)),
        ("step 9/20 loss 0.84 lr 0.1\n", ProgressValues(9, 20, 0.84)),
        ("step 9 | loss 0.5 | val loss 0.9", ProgressValues(9, None, 0.5)),
        ("step 3\nstep " + "9" * 5000, ProgressValues(3, None, None)),
        ("9" * 5000 + "/7 [00:12<", ProgressValues(None, None, None)),
        ("120/120 [00:12<00:00]\n3/120 [00:01<00:20]\n10/10 [00:01<00:00]", ProgressValues(3, 120, None)),
    ],
)
def test_step_and_loss_are_read_from_the_end_of_a_log(text: str, progress: ProgressValues) -> None:
    read = read_tail(text.encode())
    assert (read.step, read.steps) == (progress.step, progress.steps)
    if "nan" not in text:
        assert read.loss == progress.loss


def test_the_table_shows_state_progress_and_whom_to_ask() -> None:
    runs = found((A, [node_run(tail="step 5/9 loss: 0.5\n", client_age_s=90.0)]))
    title, row, remark = render_runs(runs, 1090.0)
    assert title.split()[:4] == ["RUN", "STATE", "STEP", "LOSS"]
    assert "running, alone for 2 min" in row
    assert "5/9" in row
    assert "  a and 1 more  " in row
    assert "1 of its nodes not asked or not heard: b" in remark
    *_, remark = render_runs(runs, 1090.0, answered={"a", "b"})  # it would have listed what lives
    assert remark == f"{run_id('r1')}: it does not run on b; gpulaunch attach or stop ends the rest"
    assert len(list(render_runs(runs, 1010.0, answered={"a", "b"}))) == 2  # b may be about to start it
    document = json.loads(json.dumps(encode_runs(runs, {"b": "refused"})))
    assert document["runs"][0]["missing"] == ["b"]
    (part,) = encode_runs(found((A, [over()])), {})["runs"]
    assert (part["state"], part["missing"]) == ("unknown", ["b"])  # no end of the whole run


def test_a_narrow_terminal_gets_a_table_of_fewer_columns() -> None:
    reason = "rank 3 failed with exit code 1, long after a"
    live, ended = node_run("r2", tail="step 5/9 loss: 0.5\n"), over("r1", ranks={"0": 1}, why=reason)
    runs = found((A, [live, ended]))
    wide = list(render_runs(runs, 1090.0))
    assert list(render_runs(runs, 1090.0, 300)) == wide
    for columns, titles in (
        (80, ["RUN", "STATE", "STEP", "LOSS", "HOSTS"]),
        (70, ["RUN", "STATE", "STEP", "LOSS"]),
        (53, ["RUN", "STATE"]),
    ):
        table = list(render_runs(runs, 1090.0, columns))[:3]
        assert max(map(len, table)) <= columns
        assert table[0].split() == titles
    assert table[2].endswith("  failed: rank 3 failed w...")


def test_the_table_names_the_hosts_and_the_reason_of_an_end() -> None:
    stopped = over(ranks={"0": -15}, why="stopped by ana@laptop", cause="request")
    (run,) = found(
        (A, [stopped]),
        (B, [over(node_rank=1, ranks={"1": -15}, why="stopped by ana@laptop", cause="request")]),
    )
    row = list(render_runs([run], 5000.0))[1]
    assert "  stopped by ana@laptop  " in row
    assert "  a,b  " in row or "  b,a  " in row


def test_the_table_shows_what_cpu_ranks_use_where_it_was_measured() -> None:
    use = {"0": {"rss_mib": 512, "cpu": 90.0}, "1": {"rss_mib": 1024, "cpu": None}, "2": "x"}
    (run,) = found((A, [node_run(usage={"gpus": {}, "ranks": use})]))
    assert "1 CPU rank 90% 1.5 GiB" in list(render_runs([run], 1.0))[1]
    assert encode_runs([run], {})["runs"][0]["nodes"][0]["rank_usage"] == {"0": use["0"], "1": use["1"]}
    (silent,) = found((A, [node_run(usage=None)]))
    assert "1 CPU rank  " in list(render_runs([silent], 1.0))[1]


def test_escapes_from_a_host_do_not_reach_the_terminal() -> None:
    runs = found((A, [node_run("r1", tail="loss: 1\x1b]0;x\x07", state={"run_dir": "\x1b[2Jr"})]))
    assert "\x1b" not in "".join(render_runs(runs, 1.0))


def test_hosts_that_are_silent_for_one_reason_share_a_line() -> None:
    way = "no way to 10.0.0.{} port 22: No route to host"
    unknown = "{} does not resolve"
    reasons = {f"n{number:02}": way.format(number) for number in range(1, 33)}
    reasons |= {"g1": "not known: SHA256:a/B+1c=", "g2": "not known: SHA256:Zz/9q"}
    reasons |= {"n40": unknown.format("n40"), "titan": unknown.format("titan"), "t4": "refused"}
    fixes = {"g1": "gpulaunch preflight g1", "t4": "start sshd"}
    errors = {name: HostError(name, reason, fixes.get(name, "is it up?")) for name, reason in reasons.items()}
    assert list(explain_unanswered(errors, fixes=dict.fromkeys(errors, ""))) == [
        f"n[01-32]: {way.format(1)} (the others alike)",
        "g[1-2]: not known: SHA256:a/B+1c= (the others alike)",
        "n40,titan: n40 does not resolve",
        "t4: refused",
    ]
    lines = list(explain_unanswered(errors, ("-i", "my.yaml")))
    expected = ["  fix: is it up?", "  fix: gpulaunch preflight -i my.yaml g1", "  fix: start sshd"]
    assert [lines[at] for at in (1, 3, 6)] == expected


def test_a_lost_run_is_listed_with_the_way_off_the_list() -> None:
    lost, other, alive = node_run(alive=False), node_run(node_rank=1, alive=False), node_run(node_rank=1)
    whole = "\n".join(render_runs(found((A, [lost]), (B, [other])), 5000.0))
    assert f"gpulaunch clean-zombies a shows what is left, gpulaunch rm {run_id('r1')} takes it off" in whole
    part = "\n".join(render_runs(found((A, [lost]), (B, [alive])), 5000.0))
    assert "gpulaunch clean-zombies a shows what is left" in part
    assert "gpulaunch rm" not in part
