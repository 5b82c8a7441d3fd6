"""How a run ended by what is kept locally, where a host knows nothing of it any more."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from launcher.errors import BadInput
from launcher.follow.events import HostLost, HostStarted, RunEvent
from launcher.follow.failure_diagnosis import diagnose_kept_run, read_kept_failure
from launcher.follow.run_state import RunState
from launcher.report.outcome import encode_outcome
from launcher.rundir.log_files import read_logs
from launcher.runs.attach import is_whole, restore_outcome
from tests.launcher.run_events import CPU, GOOD, come_to, ended, host_report, replay
from tests.launcher.run_plans import plan

FAILED = [
    *GOOD[:2],
    host_report("b", "rank_exit", rank=1, code=7),
    host_report("a", "rank_exit", rank=0, code=-15),
    ended("a", ranks={"0": -15}, why="rank 1 on b exited with code 7", requested=True),
    ended("b", ranks={"1": 7}),
]
DECIDED = ("verdict", "exit_code", "why", "ranks", "verified", "lost_hosts")


def came_to(history: Sequence[RunEvent], *, over: bool = False) -> RunState:
    watch = RunState(plan(CPU, CPU), over=over)
    replay(watch, history)
    return watch


@pytest.mark.parametrize("history", [GOOD, FAILED], ids=["finished", "failed"])
@pytest.mark.parametrize("forgetful", ["a", "b"])
def test_what_was_kept_of_a_run_decides_where_a_host_has_lost_its_record(
    history: Sequence[RunEvent], forgetful: str
) -> None:
    kept = json.loads(json.dumps(encode_outcome(come_to(came_to(history)))))
    assert is_whole(kept)
    heard = [
        HostLost(forgetful, "no record"),
        *(each for each in history if getattr(each, "host", "") != forgetful),
    ]
    seen = come_to(came_to(heard, over=True))
    assert seen.cleanup.lost
    restored = encode_outcome(restore_outcome(seen, kept))
    assert {key: restored[key] for key in DECIDED} == {key: kept[key] for key in DECIDED}


def test_a_rank_whose_record_is_damaged_stays_as_it_was_seen() -> None:
    seen = come_to(came_to(GOOD))
    kept = {**encode_outcome(seen), "ranks": [{"rank": [0], "code": 3}, {"rank": 1}]}
    assert restore_outcome(seen, kept).ranks == seen.ranks


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"verdict": "finished", "exit_code": 0},
        {"verdict": "odd", "exit_code": 0, "lost_hosts": {}},
        {"verdict": "finished", "exit_code": "0", "lost_hosts": {}},
        {"verdict": ["finished"], "exit_code": 0, "lost_hosts": {}},
        encode_outcome(come_to(came_to([HostStarted("a", "/r"), HostLost("b", "gone"), ended("a")]))),
    ],
)
def test_an_outcome_that_is_damaged_or_misses_a_host_decides_nothing(document: dict[str, object]) -> None:
    assert not is_whole(document)


@pytest.mark.parametrize("has_log", [False, True])
def test_a_rank_that_died_without_a_line_is_diagnosed_by_it(tmp_path: Path, *, has_log: bool) -> None:
    run = tmp_path / "paper-20260301-100000-ab12cd"
    (run / "a").mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    cause = {"host": "a", "rank": 0, "code": -9, "summary": "rank 0 on a was ended by signal 9"}
    kept = {"verdict": "failed", "logs_incomplete": "", "root_cause": cause}
    (run / "outcome.json").write_text(json.dumps(kept))
    if has_log:
        (run / "a/rank-0.log").write_text("")
    found = diagnose_kept_run(read_logs([run.name], tmp_path), read_kept_failure(kept))
    assert [(each.code, each.slug) for each in found.causes] == [("S70", "host-oom-killed")]
    kept["root_cause"] = {**cause, "oom_counted": True}  # and the kernel's count did not rise
    found = diagnose_kept_run(read_logs([run.name], tmp_path), read_kept_failure(kept))
    assert [(each.code, each.slug) for each in found.causes] == [("S70", "terminated")]
    (run / "outcome.json").write_text("{}")
    with pytest.raises(BadInput, match="nothing is known" if has_log else "no logs of it"):
        read_logs([run.name], tmp_path)
