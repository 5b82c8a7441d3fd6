"""The lines of one log's text."""

from preflight.diagnosis.lines import Line, Log, read_logs


def read_lines(text: str) -> tuple[Line, ...]:
    return read_logs((Log(text),))
