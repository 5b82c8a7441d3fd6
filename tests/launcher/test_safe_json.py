"""JSON from hosts: what is meant is read, what nobody means is refused."""

import pytest

from launcher import safe_json


def test_what_a_host_of_ours_writes_is_read() -> None:
    line = b'{"t": 1.5e9, "pid": -4194304, "name": "\\u00e9", "none": null, "big": 18446744073709551615}'
    assert safe_json.loads(line) == {
        "t": 1.5e9,
        "pid": -4194304,
        "name": "\u00e9",
        "none": None,
        "big": 2**64 - 1,
    }


@pytest.mark.parametrize(
    "line",
    [
        b"NaN",
        b"[Infinity]",
        b'{"t": -Infinity}',
        b"1e999",
        b"-1e999",
        b"1" + b"0" * 400,
        b"1" + b"0" * 9999,
        b"[" * 100_000,
        b"\xff",
        b"",
        b"{",
    ],
)
def test_what_nobody_means_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        safe_json.loads(line)
