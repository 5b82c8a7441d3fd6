"""Damaged outputs of nvidia-smi: no text makes the reader fail, and none gains a GPU."""

import re
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.errors import BadInput
from preflight.facts.missing import Missing
from tests.extra_recordings import extra
from tests.hardware import gpus_of
from tests.lab.silicon.recordings import RECORDINGS
from tests.smi_reading import parse_smi

_GPUSTAT = "node1  Mon Nov 16 10:00:00 2026  535.104.05\n" + "".join(
    f"[{at}] NVIDIA A100-SXM4-80GB | 35°C,   0 % |  40000 / 81920 MB | ann:python/123(39990M) bob(10M)\n"
    for at in range(4)
)
_REWRITTEN = "index;name;memory.used [MiB];memory.total [MiB]\n" + "".join(
    f"{at};NVIDIA A40;{at} MiB;46068 MiB\n" for at in range(4)
)


def _texts() -> list[str]:
    paths = [*sorted(RECORDINGS.iterdir()), *extra("*")]
    texts = [path.read_text() for path in paths if path.stat().st_size < 60_000]
    return [*texts, _GPUSTAT, _REWRITTEN, _REWRITTEN.replace(";", " | "), _REWRITTEN.replace(";", "\t")]


def _count(text: str) -> int:
    try:
        return len(gpus_of(parse_smi(text, "host")))
    except (BadInput, AssertionError):
        return 0


def _never_raises(text: str, most: int) -> None:
    """Where a damaged text is cut, the GPUs that it counts itself are there as unknown ones."""
    most = max(
        [most, *(int(count) for count in re.findall(r"(?:Attached GPUs *: |<attached_gpus>)(\d{1,4})", text))]
    )
    try:
        facts = parse_smi(text, "host")
    except BadInput:
        return
    if not isinstance(facts.gpus, Missing):
        assert len(facts.gpus) <= most


TEXTS = _texts()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_recording_never_gains_a_gpu(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    most = _count(text)
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 400))
    junk = data.draw(st.text(max_size=20))
    _never_raises(text[:start] + junk + text[start + length :], most)
    _never_raises(text[:start], most)


@settings(max_examples=200, deadline=None)
@given(st.text() | st.text().map(lambda text: f"<nvidia_smi_log>{text}</nvidia_smi_log>"))
def test_any_text_is_refused_or_holds_no_gpu(text: str) -> None:
    _never_raises(text, 0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_values_in_a_recording_are_values_or_reasons(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    lines = text.split("\n")
    words = st.sampled_from(
        ["N/A", "ERR!", "[GPU is lost]", "-1", "9" * 400, "1e999", "Yes", "", "\x1b[31m", "é"]
    )
    mangle: Callable[[str], str] = lambda line: line.partition(" : ")[0] + " : " + data.draw(words)  # noqa: E731
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = mangle(lines[at]) if " : " in lines[at] else lines[at].replace("0", data.draw(words))
    _never_raises("\n".join(lines), _count(text))
