"""A long log keeps what its diagnosis needs, in bounded room."""

import random

import pytest

from preflight.diagnosis.condensed_log import MOST_WHOLE, LogCondenser, condense
from preflight.diagnosis.diagnose import diagnose, diagnose_logs
from preflight.diagnosis.failure_vocabulary import build_vocabulary
from preflight.diagnosis.lines import KeptLine, Log

TRACEBACK = """Traceback (most recent call last):
  File "/home/u/train.py", line 7, in <module>
    model(batch)
  File "/home/u/net.py", line 31, in forward
    return self.head(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


def kept(data: bytes, block: int = 1 << 20) -> tuple[KeptLine, ...]:
    condenser = LogCondenser()
    for start in range(0, len(data), block):
        condenser.feed(data[start : start + block])
    return condenser.lines()


def steps(count: int, start: int = 0) -> str:
    return "".join(f"step {n} loss {2 + n % 7 / 10:.4f} lr 1e-4\n" for n in range(start, start + count))


@pytest.mark.parametrize("before", [100, 9000])
def test_a_failure_between_many_steps_is_found_with_its_place_and_number(before: int) -> None:
    found = diagnose(steps(before) + TRACEBACK + "[rank1]: waiting\n" * 9000)
    cause = found.causes[0]
    assert (cause.code, cause.location, cause.evidence[0].line) == ("S20", "/home/u/net.py:31", before + 6)


def test_every_line_is_kept_or_counted() -> None:
    lines = kept(steps(50_000).encode())
    assert len(lines) < 1500
    assert sum(line.stands_for for line in lines) == 50_000
    assert [line.number for line in lines] == sorted(line.number for line in lines)


@pytest.mark.parametrize("unlike", [0, 3])
@pytest.mark.parametrize("block", [4096, 1 << 20])
def test_how_a_repeated_line_is_sampled_does_not_depend_on_blocks(unlike: int, block: int) -> None:
    other = "".join(chr(97 + n % 26) + "bcdefghi"[n % 8] * (n // 26 % 9) + "\n" for n in range(unlike))
    data = "".join(f"step {n}\n{other if n < 400 else ''}" for n in range(20_000)).encode()
    repeated = [line for line in kept(data, block) if line.text.startswith("step")]
    assert [line.text for line in repeated] == [line.text for line in kept(data) if "step" in line.text]
    assert [line.text for line in repeated[:48]] == [f"step {n}" for n in range(48)]
    assert [line.text for line in repeated[-48:]] == [f"step {n}" for n in range(19_952, 20_000)]
    assert {int(line.text[5:]) for line in repeated[48:-48]} >= set(range(80, 19_952, 64))
    assert sum(line.stands_for for line in repeated) == 20_000


def test_among_unlike_lines_repeated_ones_are_still_counted() -> None:
    letters = str.maketrans("0123456789", "qwertyuiop")
    data = "".join(
        f"{n * 7919:b} word {n}".translate(letters) + f"\nstep {n}\n" * (n % 2) for n in range(3000)
    )
    repeated = [line for line in kept(data.encode(), 4096) if line.text.startswith("step")]
    assert (repeated[0].text, repeated[-1].text) == ("step 1", "step 2999")
    assert sum(line.stands_for for line in repeated) >= 1500  # lines kept beside others are counted twice


def test_where_a_block_ends_does_not_matter() -> None:
    bars = "".join(f"\r{n}%|##| {n}/900 [00:01<00:02, 3.1it/s]" for n in range(900)) + "\r\n"
    data = (bars * 3 + steps(300) + TRACEBACK + steps(5000)).encode()
    whole = kept(data)
    assert [line.number for line in whole if "OutOfMemory" in line.text] == [309]
    assert {line.number for line in whole if "it/s" in line.text} == {1, 2, 3}
    for block in (997, 65_536):
        assert [line[:2] for line in kept(data, block) if "Error" in line.text] == [
            line[:2] for line in whole if "Error" in line.text
        ]


def test_among_unlike_words_the_failure_is_found_and_memory_is_bounded() -> None:
    source = random.Random(5)
    words = ["".join(source.choices("abcdefghijklmnop", k=source.randint(3, 9))) for _ in range(4000)]
    prose = [" ".join(source.choices(words, k=12)) + "\n" for _ in range(6000)]
    text = "".join([*prose[:3000], TRACEBACK, *prose[3000:]])
    assert len(kept(text.encode())) < 4000
    assert diagnose(text).causes[0].code == "S20"


def test_of_very_many_failures_the_first_and_the_last_are_kept() -> None:
    text = "".join(
        f"NCCL WARN {'abcdefgh'[n % 8]}{n:b} failed {'x' * (n % 60)} {chr(97 + n % 26)}\n"
        for n in range(12_000)
    )
    letters = str.maketrans("01", "qz")  # no two lines have one shape
    lines = kept(text.translate(letters).encode())
    assert len(lines) < 6000
    assert (lines[0].number, lines[-1].number) == (1, 12_000)


def test_one_endless_line_takes_no_room() -> None:
    lines = kept(b"x" * 3_000_000 + b"\nCUDA out of memory\n", 65_536)
    assert [(line.number, len(line.text)) for line in lines] == [(1, 16_384), (2, 18)]


def test_a_nan_between_sound_steps_weighs_as_in_the_whole_log() -> None:
    bad = "step 5 loss 0.0 grad_norm nan\n"
    healthy = "".join(f"step {n} loss 1.5 grad_norm 0.7\n" for n in range(20_000))
    assert diagnose(healthy + bad * 2 + healthy).verdict == "benign"
    assert diagnose(bad * 20_000).verdict == "nan-loss"


def test_a_short_log_is_left_as_it_is() -> None:
    log = Log("x" * MOST_WHOLE)
    assert condense(log) is log
    assert diagnose_logs([condense(Log(steps(90_000)))]).verdict == "benign"


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (b"RuntimeError: Address already in use", True),
        (b"[rank0]: Watchdog caught collective operation timeout: Work", True),
        (b"Mismatched NCCL version", True),
        (b"terminated with signal SIGSEGV", True),
        (b"(Segmentation fault)", True),
        ("段错误".encode(), True),
        (b"the quick brown fox jumps over the lazy dog", False),
        (b"epoch of the reader and the writer", False),
    ],
)
def test_the_vocabulary_knows_failures_words(line: bytes, holds: bool) -> None:  # noqa: FBT001
    assert build_vocabulary().lines_with(b"nothing here\n" + line + b"\nnor here") == ([1] if holds else [])


def test_so_many_lines_are_sampled_whatever_their_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.diagnosis.condensed_log._MOST_SAMPLED", 20)
    lines = kept("".join(f"step {n}\nloss of {n}\n" for n in range(5000)).encode())
    assert len(lines) == 20 + 2 * (48 + 48)
    assert sum(line.stands_for for line in lines) == 10_000


@pytest.mark.parametrize(("limit", "most"), [("_MOST_EVENTS", 10), ("_EVENT_BYTES", 250)])
def test_where_either_limit_of_failures_is_reached_further_ones_wait_for_the_end(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """Ten failures of 25 characters reach each limit exactly, one in a block."""
    for name, value in (("_FREE_SHAPES", 0), ("_AROUND", 0), ("_LATE_BYTES", 100), (limit, most)):
        monkeypatch.setattr(f"preflight.diagnosis.condensed_log.{name}", value)
    failures = [f"RuntimeError: in {chr(97 + n) * 8}\n" for n in range(20)]
    found = [line.text[-8] for line in kept("".join(failures).encode(), len(failures[0]))]
    assert found == list("abcdefghij" + "qrst")
