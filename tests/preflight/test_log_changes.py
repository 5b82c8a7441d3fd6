"""Logs without one of their lines, in other forms, and condensed: each as its transcript has it.

`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`.
"""

import pytest

from tests.preflight.transcripts import kept_transcripts, log_changes

CHANGES = log_changes()


@pytest.mark.parametrize("heading", CHANGES)
def test_a_changed_log_is_read_as_it_was_last_read_by_eye(heading: str) -> None:
    assert CHANGES[heading]() == kept_transcripts("log_changes").get(heading)
