"""A log says the same in whatever form it comes: behind stamps and labels, in records, quoted, wrapped."""

from collections.abc import Callable, Iterable
from functools import cache

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import (
    AROUND_WHOLE_LOGS,
    HITS,
    NAME_A_RANK,
    OTHERS,
    SEEN_THROUGH,
    every_log_is_tried,
    in_turn,
    whole_logs,
)

_LSF = "benign — the report of two jobs of LSF that failed before"
_UNNAMED = "S00 user-exception likely — weights that were left out, then an exception about something else"
_NO_SCALE = "S11 nan-loss possible — the last gradient norm, and no loss scale to be seen"
_OTHERWISE = {
    ("lines twice", _LSF),
    ("lines twice", "benign — a checkpoint that cannot be read, and the one before it"),
    ("80 columns", "nan-loss — Lightning's bar"),
    ("Cloud Logging", "benign — a configuration of DeepSpeed lets it choose the loss scale"),
    ("Cloud Logging, spread", _UNNAMED),
    ("CloudWatch", _UNNAMED),
    ("a field of a status", _UNNAMED),
    ("a table's export", _UNNAMED),
    ("a parent's logger", "scheduler-launch__gpu-mpi-without-ssh.txt"),
    ("two pods", _NO_SCALE),
    ("two hosts", _NO_SCALE),
    ("a difference", "benign — a collector that takes no more log lines now"),
    # Of less than a buffer nobody knows whether it was written before or after an error.
    (
        "behind a long run",
        _KEPT_BACK := "benign — steps without a loss, all in less than a buffer, behind an "
        "evaluation that failed",
    ),
    ("lines twice", _KEPT_BACK),
    (
        "journald, monotonic",
        _PREEMPTED := "S96 preempted certain — steps behind the end of a job that nothing resumed",
    ),
    ("two streams", _PREEMPTED),
    ("two streams", "S65 broken-interpreter"),
    ("two streams", "broken-interpreter__python-home.txt"),
    ("two streams", "benign__gpu-restart-recovers.txt"),
    ("lines in parts", "benign — batches of NaN that the script leaves out"),
    ("lines in parts", _NO_SCALE),
    ("records of parts", "device-side-assert__gpu-embedding.txt"),
}
"""(form, heading) where `diagnose` still says something else than of the log alone. A repair takes it out."""

_Told = tuple[str, list[tuple[str, str]]]


def _say_the_same(name: str, tried: Iterable[str], told: Callable[[str], tuple[object, object]]) -> None:
    found = {heading: (before, after) for heading in tried for before, after in [told(heading)]}
    differing = {heading: both for heading, both in found.items() if both[0] != both[1]}
    known = {heading for heading in found if (name, heading) in _OTHERWISE}
    assert {heading: both for heading, both in differing.items() if heading not in known} == {}
    assert not every_log_is_tried() or known <= differing.keys(), "repaired: take them out of _OTHERWISE"


_SHORT_LOGS = {heading: (heading.split()[1], log) for heading, log in HITS}
_SHORT_LOGS |= {heading: (heading.split()[0], log) for heading, log in OTHERS}


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_what_stands_around_lines_is_seen_through(name: str) -> None:
    def verdicts(heading: str) -> tuple[str, str]:
        verdict, log = _SHORT_LOGS[heading]
        return verdict, diagnose(SEEN_THROUGH[name](log)).verdict

    _say_the_same(name, in_turn(_SHORT_LOGS, list(SEEN_THROUGH).index(name), 4), verdicts)


# Where one line tells nothing of a prefix, and where the words of a level are all that there is.
_LONG_LOGS = {
    heading: log
    for heading, log in whole_logs().items()
    if log.count("\n") >= 8 and "a notebook" not in heading
}


def _first_cause(log: str) -> _Told:
    found = diagnose(log)
    return found.verdict, [(each.code, each.confidence) for each in found.causes[:1]]


@cache
def _first_cause_of(heading: str) -> _Told:
    return _first_cause(_LONG_LOGS[heading])


@pytest.mark.parametrize("name", AROUND_WHOLE_LOGS)
def test_a_log_says_the_same_in_whatever_form_it_comes(name: str) -> None:
    tried = in_turn(_LONG_LOGS, list(AROUND_WHOLE_LOGS).index(name), 24)
    if name in NAME_A_RANK:
        tried = [heading for heading in tried if "rank" not in _LONG_LOGS[heading]]
    changed = AROUND_WHOLE_LOGS[name]
    _say_the_same(name, tried, lambda at: (_first_cause_of(at), _first_cause(changed(_LONG_LOGS[at]))))


def test_every_log_is_tried_in_some_form_whatever_logs_are_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [f"log {at}" for at in range(100)]
    for forms, share in ((SEEN_THROUGH, 4), (AROUND_WHOLE_LOGS, 24)):
        tried = {log for turn in range(len(forms)) for log in in_turn(logs, turn, share)}
        assert tried == set(logs)
        assert in_turn(logs[50:], 5, share) == [log for log in in_turn(logs, 5, share) if log in logs[50:]]
    monkeypatch.setenv("EXAMPLES", "1000")
    assert in_turn(logs, 5, 8) == logs


@pytest.mark.parametrize(("status", "verdict"), [(200, "benign"), (500, "user-exception")])
def test_a_request_that_a_server_refused_ends_no_server_that_answers_others(
    status: int, verdict: str
) -> None:
    served = "".join(f"INFO 02-11 03:01:0{turn} Running: {turn} reqs\n" for turn in range(9))
    raised = (
        'Traceback (most recent call last):\n  File "/app/chat.py", line 8, in answer\nValueError: no turns\n'
    )
    answers = "".join(f'INFO:     10.2.0.4:512 - "POST /v1 HTTP/1.1" {each} X\n' for each in (400, status))
    assert diagnose(f"{served}{raised}{answers}{served}").verdict == verdict


def test_a_hub_that_fails_refuses_nobody() -> None:
    raised = "huggingface_hub.errors.HfHubHTTPError: {} Error: X for url: https://huggingface.co/api/models/a"
    codes = [
        diagnose(raised.format(each)).causes[0].code for each in ("504 Server", "403 Client", "429 Client")
    ]
    assert codes == ["S82", "S81", "S81"]


@pytest.mark.parametrize("form", ["{:2d}: ", "[{}] ", "task {}: ", "[gn07:{}] "])
def test_ranks_that_write_by_turns_behind_bare_numbers_are_told_apart(form: str) -> None:
    died = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "KeyError: 'text'"]
    ranks = [died if rank == 7 else [f"step {n} loss 1.{n}" for n in range(9)] for rank in range(12)]
    turns = [form.format(rank) + of[n] for n in range(9) for rank, of in enumerate(ranks) if n < len(of)]
    assert diagnose("\n".join(turns)).verdict == "user-exception"
