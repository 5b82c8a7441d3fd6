"""The table of the benchmarks: what scripts print becomes rows, and what falls behind says so."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from bench.__main__ import SCRIPTS, Row, measure, rows_in, table
from bench.common import Target, tell


def test_every_line_that_a_script_prints_of_a_target_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell([Target("a / b, CPU", 1.25, 1.2), Target("pdsh / ours", 6.0, 5.0, at_least=True)]) == 1
    assert rows_in("x", f"other words\n{capsys.readouterr().out}") == [
        Row("x: a / b, CPU", "1.25", "<= 1.2", "behind"),
        Row("x: pdsh / ours", "6.00", ">= 5", "ok"),
    ]


def test_the_table_counts_what_reaches_its_goal() -> None:
    lines = table([Row("a", "1.25", "<= 1.2", "behind"), Row("b", "6.00", ">= 5", "ok")])
    assert "| a | 1.25 | <= 1.2 | behind |" in lines
    assert lines[-1] == "1 of 2 rows reach their goals"


@pytest.mark.slow
def test_scripts_of_the_table_exist_and_measure() -> None:
    assert all(find_spec(f"bench.{script.name}") for script in SCRIPTS)
    (growth,) = [script for script in SCRIPTS if script.name == "report_growth"]
    few = tuple("10" if word.isdigit() else word for word in growth.short or ())
    assert few != growth.short
    assert [row.name.split(":")[1] for row in measure(replace(growth, short=few), short=True)] == [
        " judge",
        " text",
        " json",
        " page",
        " dry run",
        " dry run for each 10,000 hosts of 8 GPUs",
    ]
