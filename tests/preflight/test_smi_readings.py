"""Saved outputs of nvidia-smi, whole and line by line: each fact as its transcript has it.

`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`.
"""

import pytest

from tests.preflight.smi_changes import smi_readings
from tests.preflight.transcripts import kept_transcripts

READINGS = smi_readings()


@pytest.mark.parametrize("heading", READINGS)
def test_an_output_is_read_as_it_was_last_read_by_eye(heading: str) -> None:
    assert READINGS[heading]() == kept_transcripts("smi").get(heading)
