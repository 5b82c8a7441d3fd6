"""A log says the same in whatever form it comes: behind stamps and labels, in records, quoted, wrapped."""

from functools import cache

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import (
    AROUND_WHOLE_LOGS,
    HITS,
    NAME_A_RANK,
    OTHERS,
    SEEN_THROUGH,
    in_turn,
    whole_logs,
)


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_what_stands_around_lines_is_seen_through(name: str) -> None:
    logs = [(heading.split()[1], log) for heading, log in HITS] + OTHERS
    wrong = []
    for heading, log in in_turn(logs, list(SEEN_THROUGH).index(name), 3):
        found = diagnose(SEEN_THROUGH[name](log)).verdict
        kept_back = name == "behind a long run" and "in less than a buffer" in heading
        if found != heading.split()[0] and not kept_back:
            wrong.append((heading, found, log[:80]))
    assert wrong == []


# Where one line tells nothing of a prefix, and where the words of a level are all that there is.
_LONG_LOGS = {
    heading: log
    for heading, log in whole_logs().items()
    if log.count("\n") >= 8 and "a notebook" not in heading
}


def _first_cause(log: str) -> tuple[str, list[tuple[str, str]]]:
    found = diagnose(log)
    return found.verdict, [(each.code, each.confidence) for each in found.causes[:1]]


@cache
def _first_cause_of(heading: str) -> tuple[str, list[tuple[str, str]]]:
    return _first_cause(_LONG_LOGS[heading])


@pytest.mark.parametrize("name", AROUND_WHOLE_LOGS)
def test_a_log_says_the_same_in_whatever_form_it_comes(name: str) -> None:
    logs = in_turn(list(_LONG_LOGS.items()), list(AROUND_WHOLE_LOGS).index(name), 8)
    changed = AROUND_WHOLE_LOGS[name]
    wrong = [
        (heading, before, found)
        for heading, log in logs
        if name not in NAME_A_RANK or "rank" not in log
        if (found := _first_cause(changed(log))) != (before := _first_cause_of(heading))
    ]
    assert wrong == []


def test_every_log_is_tried_in_some_form(monkeypatch: pytest.MonkeyPatch) -> None:
    for forms, share in ((SEEN_THROUGH, 3), (AROUND_WHOLE_LOGS, 8)):
        tried = {at for turn in range(len(forms)) for at in in_turn(range(100), turn, share)}
        assert tried == set(range(100))
    monkeypatch.setenv("EXAMPLES", "1000")
    assert in_turn(range(100), 5, 8) == list(range(100))


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
