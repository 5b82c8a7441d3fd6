"""Saved outputs of nvidia-smi, whole and line by line: each fact as its transcript has it.

`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`.
"""

from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts


def test_outputs_are_read_as_they_were_last_read_by_eye() -> None:
    assert changed_transcripts("smi") == {}, WRITES_ANEW
