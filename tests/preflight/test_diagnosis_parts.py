"""Parts of the diagnosis: series, what is known beside a log, long logs; each condition on both sides."""

import math
from dataclasses import replace

import pytest

from preflight.diagnosis.condensed_log import LogCondenser, condense
from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.error_lines import find_error_lines
from preflight.diagnosis.exception_origins import find_row_of_place
from preflight.diagnosis.free_memory import FreeMemory
from preflight.diagnosis.host_evidence import Context
from preflight.diagnosis.lines import Line, Log
from preflight.diagnosis.live_diagnosis import LiveDiagnosis
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.series import Point
from preflight.diagnosis.tracebacks import ParsedException, TracebackFrame, parse_exceptions
from preflight.diagnosis.trends import detect_anomalies
from preflight.diagnosis.user_exceptions import find_user_exceptions
from preflight.facts.host import KernelLog, Xid
from preflight.facts.missing import Missing
from preflight.facts.xid_table import GPU_FAILED_XIDS
from tests.preflight.diagnosis_logs import name

# --- places ---

_TRAIN, _READER, _WEB = "/work/train.py", "/site-packages/pyarrow/ipc.py", "/site-packages/requests/api.py"
_MODEL = "/site-packages/transformers/configuration_utils.py"


@pytest.mark.parametrize(
    ("kind", "files", "code"),
    [
        ("json.JSONDecodeError", (_TRAIN, _MODEL, "/lib/json/decoder.py"), "S85"),
        ("JSONDecodeError", (_TRAIN, "/lib/json/decoder.py"), "S108"),
        ("JSONDecodeError", (_TRAIN, "/lib/json/a.py", _TRAIN, _TRAIN), "S108"),
        ("JSONDecodeError", (_TRAIN, "/lib/json/a.py", _TRAIN, _TRAIN, _TRAIN), None),
        ("JSONDecodeError", (_TRAIN, _WEB, _TRAIN, "/lib/json/decoder.py"), None),
        ("JSONDecodeError", (_TRAIN, _TRAIN), None),
        ("JSONDecodeError", (), None),
        ("pyarrow.lib.ArrowInvalid", (_TRAIN, _READER), "S108"),
        ("ValueError", (_TRAIN, "/site-packages/cv2/a.py"), "S108"),
        ("ValueError", (_TRAIN, "/site-packages/cv2/a.py", _TRAIN), None),
        ("ValueError", (_TRAIN, _READER), None),
        ("ValueError", (), None),
        ("KeyError", (_TRAIN, "/site-packages/transformers/models/auto/a.py"), "S87"),
        ("ValueError", (_TRAIN, "/site-packages/transformers/models/auto/a.py"), None),
        ("KeyError", (_TRAIN, "/site-packages/transformers/models/auto/a.py", _TRAIN), None),
        ("anything.Error", (_TRAIN, "/site-packages/triton/compiler/a.py"), "S68"),
    ],
)
def test_the_place_of_an_exception_names_its_row(kind: str, files: tuple[str, ...], code: str | None) -> None:
    raised = ParsedException(kind, "it", Line(0, "", None), tuple(TracebackFrame(file, 1) for file in files))
    found = find_row_of_place([raised], "")
    assert (found and found.code) == code
    harmless = ParsedException("Error", "it", Line(0, "", None), ())
    after = find_row_of_place([harmless, raised], "")
    assert (after and after.code) == code


def test_an_exception_that_another_process_reports_is_the_one_right_behind_the_report() -> None:
    names = {"RayTaskError(AppError)": "a task", "AppError": "no shard", "LateError": "closed"}
    chain = [
        ParsedException(kind, message, Line(order, f"{kind}: {message}", None, order=order), ())
        for order, (kind, message) in enumerate(names.items())
    ]
    found = find_user_exceptions([chain], (), RunProgress([each.line for each in chain]))
    assert ["no shard" in each.cause.cause for each in found] == [True]


# --- the end of a log ---


@pytest.mark.parametrize(("behind", "found"), [(59, 1), (60, 0)])
def test_an_error_is_looked_for_in_the_last_sixty_lines(behind: int, found: int) -> None:
    texts = ["ERROR: the moon is in the wrong phase", *["waiting"] * behind]
    lines = [Line(number, text, None, order=number) for number, text in enumerate(texts)]
    assert len(find_error_lines(lines, (), RunProgress(lines), failed=True)) == found


# --- series ---


def point(
    loss: float | None = None, norm: float | None = None, scale: float | None = None, **more: object
) -> Point:
    text = str(more.pop("text", ""))
    return Point(Line(1, text, None), loss, norm, scale, **more)  # type: ignore[arg-type]


NAN = math.nan
SKIP = point(overflow=True)


def down(count: int, start: float = 3.0) -> list[Point]:
    return [point(start - n / 100) for n in range(count)]


@pytest.mark.parametrize(
    ("points", "found"),
    [
        # The average of losses that are not NaN is 0.0.
        ([point(2.0, 1.0), point(0.0, NAN)], ("S12", "certain", 1)),
        ([point(0.0, NAN), point(2.0, 1.0)], None),
        ([point(0.0, NAN), point(0.0, NAN), point(2.0, 1.0)], ("S12", "certain", 2)),
        ([point(0.0, NAN)] * 2 + [point(2.0, 1.0)] * 38, ("S12", "certain", 2)),
        ([point(0.0, NAN)] * 2 + [point(2.0, 1.0)] * 39, None),
        ([point(0.0, 1.0), point(0.1, NAN)], None),
        # Losses.
        ([*down(3), point(NAN)], ("S11", "likely", 1)),
        ([*down(3), point(NAN), point(NAN)], ("S11", "certain", 2)),
        ([*down(300), point(NAN), point(NAN)], ("S11", "likely", 2)),
        ([*down(300), point(NAN), point(math.inf), point(-math.inf)], ("S11", "certain", 3)),
        ([*down(3), point(NAN), *down(30)], None),
        ([*down(4), point(NAN), *down(15), point(NAN), *down(19)], ("S11", "certain", 2)),
        ([*down(4), point(NAN), *down(15), point(NAN), *down(20)], None),
        # A search for the loss scale at the start.
        ([point(NAN), point(NAN), *down(6)], None),
        ([point(NAN), point(NAN), *down(5)], ("S11", "certain", 2)),
        ([*down(2), point(NAN), point(NAN), *down(6)], None),
        ([*down(3), point(NAN), point(NAN), *down(6)], ("S11", "certain", 2)),
        ([point(NAN), point(2.0), point(NAN), *down(9)], ("S11", "certain", 2)),
        # Norms.
        ([point(norm=NAN)] * 3, ("S11", "certain", 3)),
        ([point(norm=NAN)] * 2, None),
        ([point(norm=NAN)] * 3 + [point(norm=1.0)], None),
        ([*down(6), *[point(norm=NAN)] * 3], ("S11", "likely", 3)),
        ([point(2.0), point(1.0), *[point(norm=NAN)] * 3], ("S11", "certain", 3)),
        ([point(2.0), point(1.5), point(2.0), *[point(norm=NAN)] * 3], ("S11", "certain", 3)),
        ([point(2.0), point(1.5), point(1.9), *[point(norm=NAN)] * 3], ("S11", "likely", 3)),
        # Loss scales.
        ([*down(5), *[SKIP] * 40], ("S23", "certain", 5)),
        ([*down(5), *[SKIP] * 39], None),
        ([*down(760), *[SKIP] * 40], ("S23", "certain", 5)),
        ([*down(761), *[SKIP] * 40], None),
        ([*[SKIP] * 40, point(2.0)], None),
        ([replace(SKIP, scale=1.0)] * 2, ("S23", "certain", 2)),
        ([replace(SKIP, scale=1.5)] * 2, None),
        ([replace(SKIP, scale=2.0), replace(SKIP, scale=1.0)], None),
        ([replace(SKIP, scale=1.0)], None),
        ([*down(5), *[replace(SKIP, scale=scale) for scale in (16.0, 8.0, 4.0)]], ("S23", "likely", 3)),
        ([*down(5), *[replace(SKIP, scale=scale) for scale in (32.0, 16.0, 8.0)]], None),
        ([*down(5), *[replace(SKIP, scale=2.0**left) for left in range(7, 1, -1)]], ("S23", "likely", 5)),
        ([*[replace(SKIP, scale=scale) for scale in (16.0, 8.0, 4.0)], *down(5)], None),
        ([point(scale=2.0), *[point(scale=0.0009)] * 3], ("S23", "certain", 3)),
        ([point(scale=2.0), *[point(scale=0.0009)] * 2], None),
        ([point(scale=0.0009)] * 2, ("S23", "certain", 2)),
        ([point(scale=0.0009)], None),
        ([point(scale=0.001)] * 3, None),
        ([point(scale=0.0009), point(scale=0.0009), point(scale=2.0)], None),
        # Zeros.
        ([point(1.0), *[point(0.0)] * 3], ("S12", "likely", 3)),
        ([point(1.0), *[point(0.0)] * 2], None),
        ([point(1.0), point(0.0), point(0.5), *[point(0.0)] * 2], None),
        ([point(0.0)] * 3, ("S12", "likely", 3)),
        ([point(0.05), *[point(0.0)] * 3], ("S12", "likely", 3)),
        # Printed with three places it may be small; not where it was great before.
        ([point(0.0, text="epoch 1 loss = 0.000 ll 0.1")] * 3, None),
        ([point(0.0, text="epoch 1 loss = 0.0")] * 3, ("S12", "likely", 3)),
        ([point(1.0), *[point(0.0, text="train_loss: 0.0000")] * 3], ("S12", "likely", 3)),
        ([point(0.049), *[point(0.0)] * 3], None),
        ([point(1.0), *[point(0.0, 0.5)] * 3], None),
        ([point(1.0), *[point(0.0, 0.0)] * 3], ("S12", "likely", 3)),
        ([point(1.0), *[point(0.0, rewarded=True)] * 3], None),
        ([], None),
    ],
)  # fmt: skip
def test_a_series_has_gone_bad_or_not(points: list[Point], found: tuple[str, str, int] | None) -> None:
    apart = [replace(each, line=replace(each.line, order=n)) for n, each in enumerate(points)]
    bad = detect_anomalies(apart)
    assert (None if bad is None else (bad.code, bad.confidence, len(bad.points))) == found


def test_a_scale_that_rose_between_two_skipped_steps_ends_their_row() -> None:
    low = point(overflow=True, text="OVERFLOW! Attempted loss scale: 16, reducing to 8")
    for began, found in ((16, None), (8, "S23"), (4, "S23")):
        later = point(overflow=True, text=f"OVERFLOW! Attempted loss scale: {began}, reducing to 8")
        bad = detect_anomalies([*[SKIP] * 20, low, later, *[SKIP] * 18])
        assert (bad.code if bad else None) == found


# --- what is known beside the log ---


@pytest.mark.parametrize(
    ("signal", "verdict"),
    [
        (1, "S72"),
        (4, "S79"),
        (6, "S69"),
        (7, "S74"),
        (8, "S79"),
        (9, "S70"),
        (11, "S71"),
        (15, "S73"),
        (2, None),
    ],
)
def test_each_signal_that_ends_a_rank_has_its_cause(signal: int, verdict: str | None) -> None:
    found = diagnose("step 1 loss 2.0\n", Context(exit_codes=(-signal,)))
    assert [cause.code for cause in found.causes] == ([verdict] if verdict else [])
    if verdict:
        (line,) = found.causes[0].evidence
        assert (line.line, line.rank, line.text, line.source) == (
            0,
            None,
            f"a process of the run ended by signal {signal}",
            "exit",
        )


@pytest.mark.parametrize(
    ("codes", "verdict"), [((0, 1), "unknown"), ((0, 0), "benign"), ((1, 1), "unknown"), ((), "benign")]
)
def test_one_rank_that_failed_makes_a_failure(codes: tuple[int, ...], verdict: str) -> None:
    assert diagnose("step 1 loss 2.0\n", Context(exit_codes=codes)).verdict == verdict


@pytest.mark.parametrize(
    ("free", "confidence"),
    [(255.0, "certain"), (256.0, None), (8191.0, None), (None, None), (8192.0, "possible")],
)
def test_little_shared_memory_explains_a_bus_error(free: float | None, confidence: str | None) -> None:
    plain = diagnose("Fatal Python error: Bus error\n").causes[0]
    found = diagnose("Fatal Python error: Bus error\n", Context(room=FreeMemory(4.0, None, free))).causes[0]
    assert found.confidence == (confidence or plain.confidence)
    measured = [each.text for each in found.evidence if each.source == "gauge"]
    known = [f"shared memory (/dev/shm) had {free:.0f} MiB free 4 s before"] if confidence and free else []
    assert measured == known
    assert ("/dev/shm had room" in found.cause) == (confidence == "possible")


def kernel(*xids: int) -> KernelLog:
    return KernelLog(
        "dmesg", tuple(Xid(x, "0000:3b:00.0", Missing("none"), f"Xid {x}") for x in xids), (), ()
    )


def test_of_a_broken_gpus_xids_five_are_shown() -> None:
    error = "RuntimeError: NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.20\n"
    broken = sorted(GPU_FAILED_XIDS)[:6]
    (first, *_) = diagnose(error, Context(kernel_logs=(kernel(*broken[:3]), kernel(13, *broken[3:])))).causes
    assert (first.code, first.confidence) == ("S40", "likely")
    assert [each.text for each in first.evidence] == [f"Xid {x}" for x in broken[:5]]
    assert {(each.source, each.line) for each in first.evidence} == {("kernel log", 0)}


def test_kills_that_the_kernel_counted_are_shown_three_at_most() -> None:
    error = "E1121 01:11:20 1 api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 512) of binary: python\n"
    kills = tuple(f"Out of memory: Killed process {n} (python)" for n in range(510, 515))
    found = diagnose(error, Context(kernel_logs=(KernelLog("dmesg", (), kills, ()),))).causes[0]
    assert (found.confidence, [each.text for each in found.evidence[:3]]) == ("certain", list(kills[:3]))
    assert kills[3] not in {each.text for each in found.evidence}


@pytest.mark.parametrize(("code", "signal"), [(-1, 1), (159, 31), (160, None), (128, None), (129, 1)])
def test_exit_codes_name_signals_up_to_31(code: int, signal: int | None) -> None:
    assert Context(exit_codes=(code,)).exit_signals == (() if signal is None else (signal,))


# --- a live run ---


def test_a_pause_is_judged_by_the_pace_and_five_minutes() -> None:
    for pace, last_fine_s in ((10.0, 300.0), (30.0, 300.0), (31.0, 310.0), (60.0, 600.0)):
        live = LiveDiagnosis()
        for step in range(3):
            live.feed(f"step {step} loss: 2.{step}", 0, "a", at_s=step * pace)
        assert live.list_stalled(2 * pace + last_fine_s) == ()
        (warning,) = live.list_stalled(2 * pace + last_fine_s + 1)
        assert warning.text == f"no step for {last_fine_s + 1:.0f} s; before, one came every {pace:.1f} s"


def test_two_steps_make_no_pace() -> None:
    live = LiveDiagnosis()
    for step in range(2):
        live.feed(f"step {step} loss: 2.{step}", 0, "a", at_s=step * 10.0)
    assert live.list_stalled(9999.0) == ()


# --- long logs ---


def test_a_log_of_256_kib_is_diagnosed_as_it_is() -> None:
    whole = Log("x\n" * (1 << 17))
    assert condense(whole) is whole
    assert condense(Log(whole.text + "x")).text == ""


def test_how_many_lines_of_a_shape_are_kept_depends_on_how_many_repeat() -> None:
    shapes, repeats = 620, 64
    condenser = LogCondenser()
    for number in range(shapes):
        condenser.feed("".join(f"{name(number)} x {n}\n" for n in range(repeats * 2)).encode())
    kept: dict[str, int] = {}
    for line in condenser.lines():
        kept[line.text.split()[0]] = kept.get(line.text.split()[0], 0) + 1
    counts = [kept[name(number)] for number in range(shapes)]
    # 48 lines twice; 12 twice and a sample; a new shape's first 7, the last 4 and a sample.
    assert [counts[n] for n in (0, 149, 150, 599, 600, 619)] == [96, 96, 25, 25, 12, 12]


# --- tracebacks whose start is cut off, or that are in a box ---


def exceptions(text: str) -> list[tuple[str, str, list[int], bool]]:
    lines = [Line(n + 1, each, None, order=n) for n, each in enumerate(text.split("\n"))]
    return [
        (each.type, each.message, [frame.line for frame in each.frames], each.bare)
        for each in parse_exceptions(lines)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("KeyError: 'x'", [("KeyError", "'x'", [], True)]),
        (
            '  File "a.py", line 7, in f\n    g()\n  File "a.py", line 9, in g\n    h()\nKeyError: \'x\'',
            [("KeyError", "'x'", [7, 9], False)],
        ),
        ('  File "a.py", line 7, in f\nwords\n    g()\nKeyError: \'x\'', [("KeyError", "'x'", [], True)]),
        ("~/a.py:12 in main\nKeyError: 'x'", [("KeyError", "'x'", [12], False)]),
        (
            'Traceback (most recent call last):\n  File "a.py", line 7, in f\n    g()\nKeyError',
            [("KeyError", "", [7], False)],
        ),
        (
            '  Traceback (most recent call last):\n    File "a.py", line 7, in f\n      g()\n  KeyError: 3',
            [("KeyError", "3", [7], False)],
        ),
        (
            ("traceback : Traceback (most recent call last):\n"
            '    File "a.py", line 7, in f\n      g()\n    KeyError: 3'),
            [("KeyError", "3", [7], False)],
        ),
        ('Traceback (most recent call last):\n  File "a.py", line 7, in f\n    g()\n  KeyError: 3', []),
    ],
)  # fmt: skip
def test_an_exception_has_the_frames_above_it(
    text: str, found: list[tuple[str, str, list[int], bool]]
) -> None:
    assert exceptions(text) == found


# --- ranks that end together ---


def box(first: str, root: str) -> str:
    """Return what torch's launcher prints where it sees two ranks end at one look."""
    rows = {"-11": "(SIGSEGV)", "-9": "(SIGKILL)", "-6": "(SIGABRT)", "1": ""}
    parts = [f"  exitcode  : {code} (pid: 7) {rows[code]}\n" for code in (first, root)]
    return (
        f"train.py FAILED\nFailures:\n[1]:\n{parts[0]}Root Cause (first observed failure):\n[0]:\n{parts[1]}"
    )


ABORTED = "terminate called after throwing an instance of 'gloo::IoException'\n"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (ABORTED + box("-11", "-6"), "segfault"),  # whichever it looked at first
        (ABORTED + box("-6", "-11"), "segfault"),
        (ABORTED + box("1", "-6"), "sigabrt"),
        (ABORTED + box("-9", "-6"), "sigabrt"),  # a launcher kills the others with it
        (box("-9", "-6"), "sigabrt"),
        (box("-11", "-9"), "host-oom-killed"),
        (box("1", "-11"), "segfault"),
    ],
)
def test_a_rank_that_aborts_beside_one_that_crashed_lost_its_peer(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


def test_seconds_before_each_line_name_no_process() -> None:
    raised = (
        "Traceback (most recent call last):",
        '  File "/a/reward.py", line 3, in f',
        "TimeoutError: late",
    )
    bars = [f"{at // 3}\t{at}/30 [00:10<00:20, 3.2it/s, loss=2.100]" for at in range(27)]
    lines = [*bars[:15], *(f"4\t{line}" for line in raised), *bars[15:]]
    assert diagnose("\n".join(lines)).verdict == "benign"
