"""Logs without one of their lines, in other forms, and condensed: each as its transcript has it.

`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`.
"""

from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts


def test_changed_logs_are_read_as_they_were_last_read_by_eye() -> None:
    assert changed_transcripts("log_changes") == {}, WRITES_ANEW
