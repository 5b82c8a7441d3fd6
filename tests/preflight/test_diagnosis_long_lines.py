"""Long lines of one thing again and again, on which a pattern that can split them in many ways never ends."""

import pytest

from preflight.diagnosis.diagnose import diagnose_logs
from preflight.diagnosis.lines import Log

UNITS = ("-", ".", ":", ",", " ", "=", "#", "|", "a", "0", "_a", "a ", "0.", "a.")
LENGTH = 2000


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", UNITS)
def test_a_line_of_one_thing_again_and_again_is_read(first: str) -> None:
    for second in UNITS:
        unit = first + second if second != first else first
        long = unit * (LENGTH // len(unit)) + "\a"
        text = f"step 1 loss 2.0\n{long}\nstep 2 loss 1.9\nTraceback (most recent call last):\n"
        text += f'  File "train.py", line 3, in <module>\n    main()\nRuntimeError: {long}\n{long}\n'
        assert any(cause.code for cause in diagnose_logs((Log(text),)).causes), unit


@pytest.mark.timeout(5)
@pytest.mark.parametrize("unit", ['"\\', "'\\", "\\'\"", '{"a": "\\'])
def test_a_quote_without_an_end_is_searched_once(unit: str) -> None:
    assert diagnose_logs((Log(unit * 20_000),)).verdict == "benign"
