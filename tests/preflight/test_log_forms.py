"""The forms in which a log comes: what is taken from around its lines, and what only looks like that."""

import json

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.paste_marks import strip_marks
from preflight.diagnosis.prefix_templates import find_prefixes
from preflight.diagnosis.structured_records import extract_lines
from tests.preflight.log_lines import read_lines

HEAD, FRAME = "Traceback (most recent call last):", '  File "a.py", line 1, in f'


def texts(log: str) -> list[str]:
    return [line.text for line in read_lines(log)]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"loss": 2.1, "message": "step"}', '{"loss": 2.0, "message": "step"}'],  # a trainer's own report
        ['{"step": 1, "lr": 0.1}', '{"step": 2, "lr": 0.1}'],
        ["{'loss': 2.1}", "{'loss': 2.0}"],
        ['{"msg": "a"}', "step 1", "step 2", "step 3"],  # one record among other lines
        ["a,b", "1,2", "3,4"],
        ["message,b", "1", "2"],
        ['{"msg": "a"', '{"msg": "b"'],
    ],
)
def test_lines_that_only_look_like_records_are_left_as_they_are(lines: list[str]) -> None:
    assert extract_lines(lines) is None
    assert texts("\n".join(lines)) == lines


def test_a_soft_level_is_kept_where_records_have_several() -> None:
    def records(*levels: str) -> list[str]:
        return [json.dumps({"level": level, "msg": f"text {n}"}) for n, level in enumerate(levels)]

    assert texts("\n".join(records("info", "error", "info"))) == ["INFO text 0", "text 1", "INFO text 2"]
    assert texts("\n".join(records("info", "info"))) == ["INFO text 0", "INFO text 1"]
    shows_end = json.dumps(
        {"level": "info", "msg": "exit code 1"}
    )  # of a parent that copies its child's output
    assert texts("\n".join([*records("info", "info"), shows_end])) == ["text 0", "text 1", "exit code 1"]


def test_levels_of_pino_are_numbers_in_records_of_a_host_and_a_process() -> None:
    def records(*levels: object, **process: object) -> str:
        return "\n".join(json.dumps({"level": each, **process, "msg": "saved"}) for each in levels)

    assert texts(records(30, 50, 30, pid=4, hostname="n1")) == ["INFO saved", "saved", "INFO saved"]
    assert texts(records(30, 50, 30)) == ["saved"] * 3  # levels of Python's logging, of a game
    assert texts(records([1], 30, 40, pid=4, hostname="n1")) == ["saved", "INFO saved", "WARN saved"]


def test_a_traceback_in_another_field_of_a_record_is_read_below_its_message() -> None:
    record = json.dumps({"message": "job failed", "exc_info": f"{HEAD}\n{FRAME}\nKeyError: 'x'"})
    assert texts(f"{record}\n{record}")[:4] == ["job failed", HEAD, FRAME, "KeyError: 'x'"]


@pytest.mark.parametrize("steps", [3, 100])
def test_an_exception_in_a_record_without_a_message_is_read(steps: int) -> None:
    said = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 GiB. GPU 0 has a total capacity "
        "of 139.80 GiB of which 138.17 GiB is free. Including non-PyTorch memory, this process has "
        "518.00 MiB memory in use. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes "
        "is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation. See documentation for "
        "Memory Management "
        "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
    rows = [{"lvl": "info", "step": step, "loss": 1.0} for step in range(steps)]
    fatal = {"lvl": "fatal", "step": steps, "error": said}
    assert diagnose("\n".join(map(json.dumps, (*rows, fatal)))).verdict == "cuda-oom"


def test_a_line_of_a_record_has_the_number_of_its_record() -> None:
    log = "\n".join(json.dumps({"log": text}) for text in ("a\n", f"{HEAD}\n{FRAME}\nKeyError: 1", "b"))
    assert [line.number for line in read_lines(log)] == [1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    "lines",
    [
        ["-0.3 is the loss", "-0.2 is the loss", "-0.1 is the loss"],
        ["+---+", "| a |", "+---+"],
        [FRAME, "    x", "  y"],
        ["1 2", "3 4", "5 6"],
        ["a &lt; b", "c", "d"],
        ["    a", "b", "    c"],
    ],
)
def test_what_only_looks_like_a_mark_is_left(lines: list[str]) -> None:
    assert list(strip_marks(lines)) == lines


def test_a_log_in_the_midst_of_prose_is_moved_to_the_left() -> None:
    prose = ["My log::", "", f"    {HEAD}", f"    {FRAME}", "    KeyError: 1", "", "thanks"]
    assert list(strip_marks(prose)) == ["My log::", "", HEAD, FRAME, "KeyError: 1", "", "thanks"]


def stamped(form: str, *lines: str) -> list[str]:
    return [form.format(n=n, line=line) for n, line in enumerate(lines, 7)]


STEPS = [f"step {n} loss 2.{n}" for n in range(7)]


@pytest.mark.parametrize(
    ("lines", "prefix"),
    [
        (stamped("{n}s: {line}", *STEPS, HEAD, FRAME, "KeyError: 1"), "7s: "),
        (stamped("{n}s: {line}", *STEPS, "=" * 20), "7s: "),
        (stamped("{n}s: {line}", *STEPS, "=" * 19), ""),
        (stamped("{n}s: {line}", *STEPS, "x", HEAD), "7s: "),
        (stamped("{n}s INFO {line}", *STEPS, "x", HEAD), ""),
        (stamped("{n}s INFO {line}", *STEPS, HEAD, FRAME), "7s INFO "),  # a parent's level for all lines
        ([*STEPS, *stamped("{n}s INFO {line}", HEAD, FRAME)], ""),  # what the run itself logged, line by line
        (stamped("{n}s INFO {line}", *STEPS, "=" * 20), ""),
        ([*STEPS, *stamped("{n}s {line}", "=" * 20, "x")], ""),  # too few to be a prefix of all
        (STEPS, ""),
    ],
)
def test_what_repeats_before_lines_of_the_left_margin_is_a_prefix(lines: list[str], prefix: str) -> None:
    assert find_prefixes(lines)[0].text == prefix


def test_lines_of_two_printers_are_kept_apart_by_their_labels() -> None:
    first = [HEAD, FRAME, "KeyError: 1"]
    other = [HEAD, '  File "b.py", line 2, in g', "torch.OutOfMemoryError: CUDA out of memory."]
    lines = [f"a: {one}\nb: {another}" for one, another in zip(first, other, strict=True)]
    places = {cause.slug: cause.location for cause in diagnose("\n".join(lines)).causes}
    assert places == {"user-exception": "a.py:1", "cuda-oom": "b.py:2"}


@pytest.mark.parametrize("form", ["{n}:{line}", "[{n}.5] x:{n} {line}"])
def test_numbers_that_count_are_no_labels(form: str) -> None:
    labels = {each.label for each in find_prefixes(stamped(form, *STEPS, HEAD, FRAME, "KeyError: 1"))}
    assert labels == {""}


def test_two_streams_of_one_printer_have_one_label() -> None:
    lines = [HEAD, FRAME, "    x", "KeyError: 1", *STEPS]
    for form in ("[trainer]<std{}>: {}", "2026-03-01T10:00:00.1Z 01{} {}"):
        names = ("out", "err") if "<std" in form else ("O", "E")
        found = find_prefixes([form.format(names[n % 2], line) for n, line in enumerate(lines)])
        assert all(each.text for each in found)
        assert {each.label for each in found} in ({""}, {found[0].label})


@pytest.mark.parametrize(
    ("form", "prefix"),
    [
        ("2026-03-01T10:00:{n:02} job/4f0c {line}", "2026-03-01T10:00:07 job/4f0c "),
        ("[   {n}.123456] gn07 python[41]: {line}", "[   7.123456] gn07 python[41]: "),
        ("10:00:{n:02} | INFO | Task 'a' - {line}", ""),  # nothing shows that a parent has put it there
    ],
)
def test_a_prefix_is_seen_where_no_traceback_shows_it(form: str, prefix: str) -> None:
    lines = stamped(form, *STEPS, "", "usage: train.py [-h]", "  --lr LR")
    assert find_prefixes(lines)[0].text == prefix


def test_a_parent_has_lines_of_its_own_around_those_that_it_copies() -> None:
    copied = "2026-03-01T10:00:{n:02}.1Z [2026-03-01, 10:00:{n:02} UTC] {{subprocess.py:93}} INFO - {line}"
    lines = stamped(copied, *STEPS, HEAD, FRAME, "    f()", "KeyError: 'a'")
    around = ["2026-03-01T10:00:00.1Z ##[group]Run train", "2026-03-01T10:00:00.1Z ##[endgroup]"]
    assert texts("\n".join([*around, *lines, *around]))[-6] == HEAD
    assert diagnose("\n".join([*around, *lines, *around])).verdict == "user-exception"
    warned = stamped("2026-03-01 10:00:{n:02} INFO - {line}", HEAD, FRAME, "    f()", "KeyError: 'a'")
    assert {each.text for each in find_prefixes([*STEPS, *STEPS, *warned, *STEPS])} == {""}


@pytest.mark.parametrize(
    "form", ["2026-03-01 10:00:{n:02} | INFO | {line}", "{n}%|###  | {n}/9 [0:0{n}<1:0{n}, 2it/s]"]
)
def test_what_a_program_writes_in_all_its_lines_is_no_prefix(form: str) -> None:
    assert {each.text for each in find_prefixes(stamped(form, *STEPS, *STEPS))} == {""}


def test_lines_whose_stamps_go_back_are_read_from_their_end() -> None:
    lines = [f"2026-03-01T10:00:0{9 - n}Z {text}" for n, text in enumerate(("c", "b", "a"))]
    assert texts("\n".join(lines)) == ["a", "b", "c"]
    assert texts("\n".join([*lines, "2026-03-01T10:00:09Z d"])) == ["c", "b", "a", "d"]  # and forth
    for row in ("Mar 01 10:00:0{} gn07 train[4]: {}", '"Mar 1, 2026 @ 10:00:0{}.123","{}"'):
        rows = [row.format(9 - n, text) for n, text in enumerate(("c", "b", "a"))]
        assert texts("\n".join(['"@timestamp","message"', *rows] if row[0] == '"' else rows)) == [
            "a",
            "b",
            "c",
        ]
    messages = [f"Mar 01 10:00:00 gn07 train[4]: 2026-02-0{9 - n} 10:00:00 {n}" for n in range(5)]
    assert texts("\n".join(messages))[0].endswith(" 0")  # the stamps of what is told do not count
    events = [json.dumps({"log": f"{text}\n"}) for text in ("a", "2026-03-01 10:00:09 b", "c", "d")]
    assert texts("\n".join(events))[0] == "a"
    history = [
        "commit 41",
        "Date: 2026-03-03 10:00:00",
        "commit 40",
        "Date: 2026-03-02 10:00:00",
        "commit 39",
    ]
    assert texts("\n".join(history)) == history


def test_an_error_in_an_object_of_its_record_is_read() -> None:
    raised = {"type": "KeyError", "message": "'x'", "stack_trace": f"{HEAD}\n{FRAME}\nKeyError: 'x'"}
    record = json.dumps({"log.level": "error", "message": "job failed", "error": raised})
    assert texts(f"{record}\n{record}")[:4] == ["job failed", HEAD, FRAME, "KeyError: 'x'"]


def test_a_long_string_that_a_program_prints_is_no_log() -> None:
    prompt = repr("You are a helpful assistant.\nAnswer in one word.\n" * 2)
    assert texts(f"step 1\nprompt={prompt}") == ["step 1", f"prompt={prompt}"]
