import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.diagnosis.diagnose import diagnose, diagnose_logs
from preflight.diagnosis.host_evidence import Context
from preflight.diagnosis.lines import Log
from preflight.diagnosis.result import BENIGN, UNKNOWN
from preflight.diagnosis.signatures.model import find_longest_literal, select_literals, split_branches
from preflight.diagnosis.signatures.table import NOTICES, SEARCHED, SIGNATURES
from tests.extra_recordings import LOGS as EXTRA_LOGS
from tests.failures.kinds import KINDS
from tests.failures.provoke import provoke
from tests.field_notes.ranks import LIGHT, shimmed
from tests.preflight.diagnosis_logs import HITS, LOGS, OTHERS, blocks, messages, near_misses, recorded
from tests.preflight.transcripts import WRITES_ANEW, changed_transcripts, diagnose_once

JUDGED = blocks("judged.txt")
RECORDED = recorded()


@pytest.mark.parametrize(("heading", "log"), HITS, ids=[heading for heading, _ in HITS])
def test_every_row_is_named_for_the_log_that_it_is_made_for(heading: str, log: str) -> None:
    code, slug = heading.split()
    found = diagnose_once(log)
    assert (found.verdict, found.causes[0].code) == (slug, code)


@pytest.mark.parametrize(("heading", "log"), JUDGED, ids=[heading for heading, _ in JUDGED])
def test_a_cause_is_named_as_surely_as_its_log_allows(heading: str, log: str) -> None:
    code, slug, confidence = heading.split()[:3]
    found = diagnose_once(log)
    assert (found.causes[0].code, found.verdict, found.causes[0].confidence) == (code, slug, confidence)


def test_logs_are_diagnosed_place_for_place_as_last_read_by_eye() -> None:
    """`python -m tests.preflight.transcripts` writes a change down: read it in `git diff`."""
    assert changed_transcripts("logs") == {}, WRITES_ANEW


def _steps(values: dict[int, str], last: int = 200) -> str:
    return "".join(f"step {n} | loss {values.get(n, f'{3 - n / 100:.4f}')} | lr 1e-4\n" for n in range(last))


@pytest.mark.parametrize(
    ("log", "verdict", "confidence"),
    [
        (_steps(dict.fromkeys((40, 90, 140), "nan")), BENIGN, ""),  # 3 of 200, and the loss falls on
        (_steps(dict.fromkeys(range(40, 200, 9), "nan")), "nan-loss", "certain"),
        (_steps(dict.fromkeys(range(197, 200), "nan")), "nan-loss", "certain"),
        (_steps({199: "nan"}), "nan-loss", "likely"),
        (_steps({}) + "step 201 | loss 1.0 | grad_norm inf\n" * 3, "nan-loss", "likely"),
        ("step 1 | loss 3.0 | grad_norm inf\n" * 3, "nan-loss", "certain"),
        ("step 1 | loss 3.0 | grad_norm inf\n" * 2, BENIGN, ""),
        ("step 1 | grad_norm inf\n" * 9, "nan-loss", "certain"),
    ],
    ids=["few", "rate", "tail", "last", "norms of a loss that falls", "norms", "two norms", "norms alone"],
)
def test_an_overflow_is_judged_by_its_rate(log: str, verdict: str, confidence: str) -> None:
    found = diagnose(log)
    assert (found.verdict, found.causes[0].confidence if found.causes else "") == (verdict, confidence)


def test_bars_of_one_width_are_not_lines_that_a_terminal_cut() -> None:
    bar = " 40%|####      | 40/100 [00:01<00:01, 39.90it/s, v_num=0, train_loss_step=2.310, lr=0.0001]"
    log = f"{bar}\r" * 6 + f"{bar}\nnext epoch\n{bar}\nRuntimeError: CUDA error: out of memory\n"
    assert [cause.evidence[0].text for cause in diagnose(log).causes][:1] == [
        "RuntimeError: CUDA error: out of memory"
    ]


_SCRIPT = "/home/ana/ft/scripts/train.py"
_SITE = "/opt/venv/lib/python3.11/site-packages/peft/__init__.py"
_SYSTEM = "/usr/lib/python3/dist-packages/peft.py"


@pytest.mark.parametrize(
    ("module", "files", "own", "command", "said"),
    [
        ("mylib", [_SCRIPT], ["mylib"], "gpulaunch run --sync ...", "the user's own"),
        ("scripts", [_SCRIPT], [], "export PYTHONPATH=/home/ana/ft", "the user's own"),
        ("train.extra", [_SCRIPT], [], "gpulaunch run --sync ...", "the user's own"),
        ("mylib", [_SCRIPT], [], "", "if mylib is your own"),
        ("peft", [_SCRIPT, _SITE], [], "/opt/venv/bin/python -m pip install peft", "hosts.yaml"),
        ("cv2", [_SCRIPT, _SYSTEM], [], "/usr/bin/python3 -m pip install opencv-python-headless", "PEP 668"),
        ("torchvision", [_SCRIPT], [], "python -m pip install torchvision --index-url URL", "driver"),
    ],
)
def test_a_missing_module_of_ones_own_is_never_one_of_pip(
    module: str, files: list[str], own: list[str], command: str, said: str
) -> None:
    frames = "".join(f'  File "{file}", line 3, in <module>\n    import x\n' for file in files)
    log = f"Traceback (most recent call last):\n{frames}ModuleNotFoundError: No module named '{module}'\n"
    cause = diagnose(log, Context(own_modules=frozenset(own))).causes[0]
    assert (cause.slug, cause.command) == ("missing-module", command)
    assert said in f"{cause.cause}; {cause.fix}"


@pytest.mark.parametrize(("code", "line"), near_misses(), ids=[code for code, _ in near_misses()])
def test_a_near_miss_is_no_cause(code: str, line: str) -> None:
    rows = [row for row in SEARCHED if row.code == code]
    assert rows
    assert not any(each.search(line) for row in rows for each in row.alternatives)
    assert diagnose(f"{line}\nstep 1 loss 2.0\n").verdict == BENIGN


def test_every_row_has_a_hit_and_a_near_miss() -> None:
    codes = {row.code for row in SIGNATURES}
    assert {heading.split()[0] for heading, _ in HITS} == codes
    assert {code for code, _ in near_misses()} == codes


def test_codes_are_unique() -> None:
    codes = [row.code for row in SIGNATURES] + [notice.code for notice in NOTICES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(("heading", "log"), OTHERS, ids=[heading for heading, _ in OTHERS])
def test_composed_and_healthy_logs(heading: str, log: str) -> None:
    assert diagnose_once(log).verdict == heading.split(maxsplit=1)[0]


@pytest.mark.parametrize(("slug", "path"), RECORDED, ids=[path.stem for _, path in RECORDED])
def test_recorded_failures(slug: str, path: Path) -> None:
    assert diagnose_once(path.read_text(encoding="utf-8")).verdict == slug


def test_a_message_is_known_with_a_traceback_and_alone() -> None:
    above = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in <module>\n    main()\n'
    logs = [(slug, f"{before}{message}\n") for slug, message in messages() for before in (above, "")]
    wrong = [
        (slug, log, found)
        for slug, log in logs
        if (found := diagnose(log).verdict) != slug and (slug != "user-exception" or log.startswith(above))
    ]
    assert wrong == []


@pytest.mark.train
@pytest.mark.parametrize("name", ["cut-checkpoint", "rank-1-absent", "signal-11"])
def test_a_failure_made_now_is_recognised(name: str) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    kind = replace(kind, environ=(*kind.environ, *shimmed(LIGHT).items()))
    assert diagnose(provoke(kind)).verdict == kind.slug


def test_every_kind_that_can_be_provoked_is_recorded() -> None:
    assert {path.name for _, path in RECORDED} == {f"{kind.slug}__{kind.name}.txt" for kind in KINDS}


def test_enough_failures_were_provoked_for_real() -> None:
    assert len([slug for slug, _ in RECORDED if slug != BENIGN]) >= 35


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (
            "Training hangs after the first epoch, and no error is printed at all.\nWhat can I look at?",
            UNKNOWN,
        ),
        ("I start it on two nodes and one of the processes gets killed after an hour.", UNKNOWN),
        ("From the second epoch on the training process won't move on, and no error is shown.", UNKNOWN),
        ("Training is fine since then and does not fail any more.", BENIGN),
        ("10:20:31 the loader of the first rank is stuck in no way", BENIGN),
    ],
)
def test_what_a_person_says_of_a_failure_is_not_called_benign(said: str, verdict: str) -> None:
    assert diagnose(said).verdict == verdict


def test_most_logs_that_others_recorded_are_named_by_their_first_cause() -> None:
    """The provoked logs of this repository, and those that may lie beside it."""
    index = EXTRA_LOGS / "index.tsv"
    rows = (
        [line.split("\t") for line in index.read_text(encoding="utf-8").splitlines()[1:]]
        if index.exists()
        else []
    )
    logs = [(slug, path.read_text(encoding="utf-8", errors="replace")) for slug, path in RECORDED]
    for name, slug, _, cause, *_ in rows:
        wanted = BENIGN if cause.startswith("no failure") else slug
        logs.append((wanted, (EXTRA_LOGS / name).read_bytes().decode("utf-8", "replace")))
    assert sum(diagnose_once(log).verdict == wanted for wanted, log in logs) >= 0.97 * len(logs)


def test_several_logs_are_put_in_order_by_their_times() -> None:
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1, in m\n'
    late = f"2026-03-01 10:05:00,100 ERROR x\n{raised}RuntimeError: CUDA error: out of memory\n"
    early = f"2026-03-01 10:01:00,100 ERROR x\n{raised}OSError: [Errno 28] No space left on device\n"
    found = diagnose_logs((Log(late, "a/rank-0.log", 0, "a"), Log(early, "b/rank-1.log", 1, "b")))
    assert [cause.slug for cause in found.causes] == ["disk-full", "cuda-oom"]
    assert (found.causes[0].host, found.causes[0].rank, found.causes[0].evidence[0].source) == (
        "b",
        1,
        "b/rank-1.log",
    )


def test_a_sigkill_without_evidence_of_memory_is_never_certain() -> None:
    log = "E1121 01:11:20 1 api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 512) of binary: python\n"
    assert diagnose(log).causes[0].confidence == "likely"
    kernel = diagnose("Out of memory: Killed process 512 (python) total-vm:1kB\n" + log)
    assert (kernel.causes[0].code, kernel.causes[0].confidence) == ("S77", "certain")


_REFUSED = "TypeError: Trainer.__init__() got an unexpected keyword argument"
_UNREAD = "cannot open shared object file: No such file or directory"
_TRL = "/opt/venv/lib/python3.11/site-packages/trl/trainer/sft_trainer.py"


@pytest.mark.parametrize(
    ("file", "message", "command", "said"),
    [
        (_SCRIPT, f"{_REFUSED} 'processing_class'", "write tokenizer=", ""),
        (_TRL, f"{_REFUSED} 'tokenizer'", "python -m pip install -U trl", "fit together"),
        (_SCRIPT, "OSError: [Errno 28] No space left on device", "df -h . /tmp", "disk"),
        (_SCRIPT, "OSError: [Errno 28] No space left on device: '/out/last.pt'", "df -h /out/last.pt", ""),
        (_SCRIPT, "ImportError: /opt/x/fused.so: undefined symbol: _ZN2at4_ops5emptyE", "", "another torch"),
        (_SCRIPT, f"ImportError: libcudart.so.11.0: {_UNREAD}", "", "built for the CUDA of"),
        (_SCRIPT, f"ImportError: libc10.so: {_UNREAD}", "", "import torch before it"),
        (_SCRIPT, "RuntimeError: No working C++ compiler found", "sudo apt install g++", ""),
        (_SCRIPT, "RuntimeError: Internal Triton PTX codegen error: x", "export TORCHDYNAMO_DISABLE=1", ""),
        (_SCRIPT, "RuntimeError: Triton Error [CUDA]: invalid argument", "python -m pip show", "no blocks"),
        (_SCRIPT, "fatal error: Python.h: No such file or directory", "sudo apt install python3-dev", ""),
        (_SCRIPT, "Ninja is required to load C++ extensions", "python -m pip install ninja", ""),
        (_SCRIPT, "OSError: CUDA_HOME environment variable is not set", "install the CUDA toolkit", ""),
    ],
)  # fmt: skip
def test_advice_is_for_the_place_that_went_wrong(file: str, message: str, command: str, said: str) -> None:
    log = f'Traceback (most recent call last):\n  File "{file}", line 3, in run\n    call()\n{message}\n'
    cause = diagnose(log).causes[0]
    assert cause.command.startswith(command)
    assert bool(cause.command) == bool(command)
    assert said in f"{cause.cause}; {cause.fix}"


def test_the_line_of_the_users_code_and_the_command_are_told() -> None:
    found = diagnose(dict(HITS)["S90 deprecated-tokenizer-arg"]).causes[0]
    assert found.location == "/home/ana/ft/train.py:40"
    assert found.command == "write processing_class= instead of tokenizer="
    assert (
        diagnose(dict(HITS)["S89 missing-module"])
        .causes[0]
        .command.endswith("-m pip install opencv-python-headless")
    )
    assert "meta-llama/Llama-3.1-8B" in diagnose(dict(HITS)["S80 hf-hub-auth"]).causes[0].command


def test_a_first_exception_that_is_in_no_row_is_named_with_its_place() -> None:
    found = diagnose((LOGS / "recorded" / "user-exception__worker-error.txt").read_text(encoding="utf-8"))
    assert found.causes[0].cause == "the script raised KeyError: 'caption'"
    assert found.causes[0].location == "/workspace/run/train.py:5"


@pytest.mark.parametrize(
    "ours",
    [
        "gpulaunch_guard/torch_hooks.py",
        "/home/ana/.local/state/gpulaunch/runs/t-1/guard.py",
        "/home/ana/.local/state/gpulaunch/runs/box-7ae7b002/t-1/rank.py",
        "/home/ana/.local/state/gpulaunch/runs/box-7ae7b002/t-1/start_launcher.py",
    ],
)
def test_a_frame_of_gpulaunch_itself_is_not_the_users_line(ours: str) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/home/ana/train.py", line 7, in <module>\n'
        f'  File "{ours}", line 95, in backward\n'
        '  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward\n'
        "RuntimeError: CUDA error: out of memory\n"
    )
    assert diagnose(log).causes[0].location == "/home/ana/train.py:7"


@pytest.mark.parametrize(("end", "code"), [("Segmentation fault", "S71"), ("Aborted", "S69")])
def test_a_crash_is_at_the_line_that_faulthandler_names(end: str, code: str) -> None:
    log = (
        f"Fatal Python error: {end}\n\nThread 0x00007f7e1041 (most recent call first):\n"
        '  File "/w/x.py", line 5 in wait\n'
        "\nCurrent thread 0x00007f7e1042 (most recent call first):\n"
        '  File "/env/lib/python3.11/site-packages/cv2/__init__.py", line 6 in load\n'
        '  File "/w/train.py", line 7 in f\n'
    )
    cause = diagnose(log).causes[0]
    assert (cause.code, cause.location, cause.command) == (code, "/w/train.py:7", "")


def test_harmless_lines_are_named_and_are_no_cause() -> None:
    found = diagnose(
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`\n"
    )
    assert (found.verdict, found.warnings[0].code, found.warnings[0].safe) == (BENIGN, "W01", True)
    unsafe = diagnose(
        "checkpoint.py:31: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
    )
    assert (unsafe.verdict, unsafe.warnings[0].safe) == (BENIGN, False)


def test_what_a_notice_says_is_what_it_counts_as() -> None:
    words = {notice.code: (notice.safe, notice.verdict) for notice in NOTICES}
    assert [
        code for code, (safe, verdict) in words.items() if verdict.startswith("harmless") and not safe
    ] == []
    assert [
        code for code, (safe, verdict) in words.items() if verdict.startswith("not harmless") and safe
    ] == []


@pytest.mark.parametrize(
    "log", ["", "\n", "\x00", "\r\r\r", "│", "╭──╮\n", "Traceback (most recent call last):\n"]
)
def test_little_is_answered(log: str) -> None:
    assert diagnose(log).verdict in (BENIGN, UNKNOWN)


_PIECES = st.sampled_from(
    """Traceback (most recent call last):
  File "a.py", line 3, in f
ValueError: x
[rank0]: loss: nan
The above exception was the direct cause of the following exception:
│ x │
╰──╯
100%|█| 1/1 [00:01<00:00]
exitcode  : -9 (pid: 3)
Failures:
Root Cause (first observed failure):
\x1b[31m
{'loss': 0.0, 'grad_norm': nan}
CUDA out of memory
""".splitlines(keepends=True)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=40)), max_size=40))
def test_no_text_makes_it_raise(pieces: list[str]) -> None:
    found = diagnose("".join(pieces))
    assert found.verdict == (found.causes[0].slug if found.causes else found.verdict)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(SIGNATURES)), st.data())
def test_a_literal_never_hides_a_match(row: object, data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(split_branches(getattr(row, "pattern"))))  # noqa: B009 - sampled as object
    text = data.draw(st.from_regex(re.compile(pattern), fullmatch=False))
    assert find_longest_literal(pattern) in text
    assert any(literal in text for literal in select_literals(pattern))


@pytest.mark.slow
def test_a_long_log_is_read_in_seconds() -> None:
    step = "2026-03-01 10:00:00,100 - INFO - step {n} loss: 2.{n} lr: 0.01 grad_norm: 1.{n} {n} tok/s\n"
    log = "".join(step.format(n=number) for number in range(100_000)) + dict(HITS)["S20 cuda-oom"]
    began = time.monotonic()
    assert diagnose(log).verdict == "cuda-oom"
    assert time.monotonic() - began < 30
