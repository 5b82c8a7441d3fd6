"""Programs, files and probes that are run or read with a limit: what came is kept, the rest has a reason."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from preflight.probes.commands import run_command
from preflight.probes.fact import missing, read_fact, with_timeout
from preflight.probes.files import read_text
from preflight.probes.probe_runner import Probe, run_probes
from preflight.probes.request import read_request


def test_a_program_has_its_output_and_status() -> None:
    run = [sys.executable, "-S", "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
    ran = run_command(run, 30.0)
    assert (ran.status, sorted(ran.text.split())) == (3, ["err", "out"])
    killed = run_command([sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)"], 30.0)
    assert killed.status == -1
    assert run_command(["/bin/sleep", "60"], 0.0).status is None
    with pytest.raises(FileNotFoundError):
        run_command(["no-such-program"], 1.0)


def test_what_a_wrapper_has_started_goes_with_it_when_it_is_given_up() -> None:
    ran = run_command(["sh", "-c", "sleep 600 & echo $!; exec cat /dev/zero"], 60.0)  # far more than is taken
    assert ran.status is None
    child = Path("/proc", ran.text.partition("\n")[0], "stat")
    deadline = time.monotonic() + 60.0
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_that_lives_on_without_its_output_is_given_up() -> None:
    assert run_command(["sh", "-c", "exec sleep 600 >&- 2>&-"], 1.0).status is None


def test_a_text_has_at_most_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("abcdef")
    assert [read_text(str(path), limit) for limit in (0, 5, 6, 7)] == ["", "abcde", "abcdef", "abcdef"]


def test_a_fact_is_what_is_read_or_why_it_is_not() -> None:
    assert read_fact(lambda: 5) == 5
    assert read_fact(lambda: 1 // 0)["missing"].startswith("ZeroDivisionError")
    assert with_timeout(30.0, lambda: 6) == 6
    assert with_timeout(0.0, lambda: os.read(os.pipe()[0], 1))["code"] == "timeout"


def test_probes_run_side_by_side_and_each_owes_its_facts() -> None:
    ask = read_request({}, None)
    hang = os.pipe()[0]

    def parts(_: object, emit: Any) -> None:
        emit("gpus", "0", "name", "L40S")
        emit("gpus", "1", "name", "T4")
        emit("driver", "595")
        emit("gpus", "2", "uuid", "GPU-2")

    def fail(_: object, emit: Any) -> None:
        emit("kept", 1)
        raise ValueError("odd")

    def late(_: object, emit: Any) -> None:
        emit("sent", 2)
        os.read(hang, 1)

    answer: dict[str, Any] = {}
    took = run_probes(
        [
            Probe("parts", parts, ("gpus", "driver", "owed"), 30.0),
            Probe("fail", fail, ("kept", "lost"), 30.0),
            Probe("late", late, ("sent", "never"), 0.3),
            Probe("quiet", lambda _, emit: None, ("nothing",), 30.0),
        ],
        ask,
        answer,
    )
    assert set(took) == {"parts", "fail", "late", "quiet"}
    assert min(took.values()) >= 0
    ended = missing("the parts probe ended without an answer")
    assert answer["gpus"] == {
        "?": ended,
        **{
            number: {"?": None, key: value}
            for number, key, value in (("0", "name", "L40S"), ("1", "name", "T4"), ("2", "uuid", "GPU-2"))
        },
    }
    assert (answer["driver"], answer["owed"]) == ("595", ended)
    assert (answer["kept"], answer["lost"]) == (1, missing("ValueError: odd"))
    assert (answer["sent"], answer["never"]) == (2, missing("no answer within 0.3 s", "timeout"))
    assert answer["nothing"] == missing("the quiet probe ended without an answer")
