"""Of very many exceptions some of each shape are judged."""

import pytest

from preflight.diagnosis.exception_shapes import select_exceptions
from preflight.diagnosis.signature_matcher import find_hits
from preflight.diagnosis.tracebacks import parse_exceptions
from tests.preflight.log_lines import read_lines

_WORDS = [f"{a}{b}{c}" for a in "klmn" for b in "aeiou" for c in "rstvwxyz"]
_HEAD = 'Traceback (most recent call last):\n  File "train.py", line 3, in step\n'


def judged(raised: list[str]) -> list[str]:
    """Return the exceptions of tracebacks with these last lines that are judged."""
    lines = read_lines("\n".join(_HEAD + each for each in raised))
    found, hits = select_exceptions(parse_exceptions(lines), find_hits(lines))
    assert {hit.line.order for hit in hits} <= {each.line.order for each in found}
    return [each.text for each in found]


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        ([f"KeyError: 'k{at}'" for at in range(100)], [*range(100)]),
        ([f"KeyError: 'k{at}'" for at in range(101)], [*range(5), *range(96, 101)]),
        (
            [f"OSError: [Errno 5] Input/output error: '/d/{at}'" for at in range(120)],
            [*range(5), *range(115, 120)],
        ),
        ([f"ValueError: bad {word}" for word in _WORDS], [*range(30), *range(130, 160)]),
        ([f"ValueError: at 0x{at * 7919:012x}" for at in range(200)], [*range(5), *range(195, 200)]),
    ],
    ids=["few", "quoted", "known-and-paths", "unlike", "addresses"],
)
def test_some_of_each_shape_are_judged(raised: list[str], kept: list[int]) -> None:
    assert judged(raised) == [raised[at] for at in kept]


def test_a_known_exception_among_very_many_is_judged() -> None:
    raised = [f"ValueError: bad {word}" for word in _WORDS]
    raised.insert(80, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert raised[80] in judged(raised)


def test_exceptions_of_each_rank_are_judged() -> None:
    text = "\n".join(f"[rank{at % 8}]: KeyError: 'k{at}'" for at in range(400))
    lines = read_lines(text)
    found, _ = select_exceptions(parse_exceptions(lines), find_hits(lines))
    assert {each.line.rank for each in found} == set(range(8))
    assert len(found) == 80
