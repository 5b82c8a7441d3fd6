"""Certain is what a process reports and a run ends by; what a line names or a run outlived is less."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
_STEPS = "step 1 loss 2.0\nstep 2 loss 1.9\n"


def _confidence(log: str) -> str:
    causes = diagnose(log).causes
    return causes[0].confidence if causes else "none"


@pytest.mark.parametrize(
    "lead",
    [
        "",
        "torch.OutOfMemoryError: ",
        "RuntimeError: ",
        "2026-03-01 10:00:09.001 | ERROR    | t:fit:99 - ",
        "E0301 10:00:04.123456 140 main.py:88] Uncaught: ",
        "train.py: error: ",
        "[2026-03-01 10:00:00] ",
        "Exception in worker 3: ",
        "[node3] out: RuntimeError: ",
        "n2: RuntimeError: ",
        "ERROR:root:",
        "**** FATAL **** ",
        'ts=3 lvl=eror error="',
        'fatal: [n3]: FAILED! => {"rc": 18, "stdout": "',
        "26.7716 RuntimeError: ",
        "10:13:08 [11,526ms] [Error] [physics.plugin] error: ",
    ],
)
def test_what_a_process_reports_at_the_end_of_a_log_is_certain(lead: str) -> None:
    assert _confidence(f"step 1 loss 2.0\n{lead}{_OOM}\n") == "certain"


@pytest.mark.parametrize(
    "lead",
    [
        "[doc 1] RuntimeError: ",
        "[1] RuntimeError: ",
        "probe seq=16384 bs=1: ",
        "0.88  ",
        "src/a.py:10: # ",
        "match: ",
        "rank 0: ",
        "pred=",
        "Observation: FAILED tests/test_a.py - RuntimeError: ",
        "- job 3: ",
        'server response: "',
    ],
)
def test_what_a_line_names_behind_other_words_is_at_most_likely(lead: str) -> None:
    assert _confidence(f"step 1 loss 2.0\n{lead}{_OOM}\n") in ("likely", "none")


@pytest.mark.parametrize(
    "said",
    [
        f"Batch size 64 failed: {_OOM}, trying 32\n",
        f"probe bs=64: {_OOM}\n",
        "env 3: worker died (Segmentation fault), restarting it\n",
        "injecting fault: SIGKILL to rank 3\n",
        f"[RESOLVED] alert on n3: {_OOM}\n",
        f"decoded: RuntimeError: {_OOM}\n",
    ],
)
@pytest.mark.parametrize("behind", [_STEPS, "loaded\naccuracy: 0.50\n", "loaded\nreport written to r.md\n"])
def test_a_run_that_goes_on_behind_words_is_healthy(said: str, behind: str) -> None:
    assert diagnose(said + behind).verdict == "benign"
    assert diagnose(said).verdict != "benign"


@pytest.mark.parametrize(
    "said",
    [
        f"RuntimeError: {_OOM}\n",
        f'time,rank,text\n10:00,1,"{_OOM}"\n10:01,2,"hello"\n',
        f"====  ====\nrank  what\n====  ====\n0     {_OOM}\n====  ====\n",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-02T03:00:00 DUE TO PREEMPTION ***\n",
    ],
)
def test_what_reports_is_not_outlived_by_two_steps(said: str) -> None:
    assert diagnose(said + _STEPS).causes


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (f'docs/faq.md: "{_OOM}" has no anchor', "benign"),
        ("  502  grep 'Segmentation fault' run.txt", "benign"),
        (f'judge_prompt: "Say whether {_OOM} is why"', "benign"),
        (f"stop: ['a', '{_OOM}']", "benign"),
        (f'server failed: "{_OOM}"', "cuda-oom"),
        (f'{{"id": 1, "error": "{_OOM}"}}', "cuda-oom"),
        ("'torchrun' is not recognized as an internal or external command,", "missing-file"),
        ("The command '/bin/sh -c python t.py' returned a non-zero code: 1", "unknown"),
    ],
)
def test_what_stands_in_quotation_marks_alone_has_not_happened(said: str, verdict: str) -> None:
    behind = _STEPS if verdict == "benign" else "loading\n"
    assert diagnose(f"{said}\n{behind}").verdict == verdict


def test_words_in_quotation_marks_are_likely_where_nothing_shows_that_a_run_continued() -> None:
    assert _confidence(f'{_STEPS}checkpoint writer: "OSError: {_OOM}"\nthe end\n') == "likely"
    assert _confidence("probing n2 ... 'driver/library version mismatch'\nprobing n3 ...\n") == "none"


@pytest.mark.parametrize(
    "lead",
    [
        "worker 3: ",
        "Training failed with ",
        "run failed: ",
        "eval crashed: ",
        "❌ ",
        "Rank 3 got ",
        "worker-1 said: ",
    ],
)
def test_late_lines_of_a_process_that_says_it_ended_hide_no_failure(lead: str) -> None:
    log = f"{_STEPS}{lead}{_OOM}\n"
    assert diagnose(log + "step 3 loss 1.8\nstep 4 loss 1.7\n").verdict == "cuda-oom"
    assert diagnose(log + "crash report written to r.json\n").verdict == "cuda-oom"
    assert diagnose(log + "accuracy: 0.1\n").verdict == "cuda-oom"
    assert diagnose(log + "step 3 loss 1.8\nstep 4 loss 1.7\nstep 5 loss 1.6\n").verdict == "benign"


def test_what_another_pod_prints_hides_no_failure() -> None:
    log = "[pod/w-0/torch] step 1 loss 2.1\n[pod/w-1/torch] RuntimeError: " + _OOM + "\n"
    assert (
        _confidence(log + "[pod/w-0/torch] step 2 loss 2.0\n[pod/w-0/torch] step 3 loss 1.9\n") == "certain"
    )
    log = f"(head, rank=0, pid=7) step 1 loss 2.1\n(worker1, rank=1, pid=8) RuntimeError: {_OOM}\n"
    assert _confidence(log + "ERROR: Job 1 failed with return code list: [1]\n") == "certain"


def test_fields_of_a_record_report_what_its_message_does_not() -> None:
    steps = 'ts=1 level=info msg="step" loss=2.1\nts=2 level=info msg="step" loss=2.0\n'
    assert (
        diagnose(f'{steps}ts=3 level=error msg="exited" error="RuntimeError: {_OOM}"\n').verdict == "cuda-oom"
    )
    assert diagnose(f'{steps}ts=3 level=error msg="exited" err="status 1: {_OOM}"\n').verdict == "cuda-oom"
    assert diagnose(f'{steps}ts=3 level=info msg="next" error="status 1: {_OOM}"\n').verdict == "benign"
    nans = "".join(f'ts={at} level=info msg="step" step={at} loss=nan\n' for at in range(3, 7))
    assert diagnose(steps + nans).verdict == "nan-loss"


@pytest.mark.parametrize(
    ("log", "verdict", "confidence"),
    [
        ("step 1 loss 2.1\nexit code 124\n", "time-limit", "likely"),
        (
            '0123456789ab   t   "python t.py"   2 hours ago   Exited (137) 5 minutes ago   t\n',
            "host-oom-killed",
            "likely",
        ),
    ],
)
def test_codes_by_which_timeout_and_docker_say_an_end_are_likely(
    log: str, verdict: str, confidence: str
) -> None:
    assert (diagnose(log).verdict, _confidence(log)) == (verdict, confidence)


def test_an_exception_behind_which_a_process_writes_more_is_not_certain() -> None:
    head = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'
    raised = f"{head}RuntimeError: {_OOM}\n"
    said = "the model ran it\nreward was low\nnext the answer\nthen another one\n" * 3
    assert _confidence(raised) == "certain"
    assert _confidence(raised + said) == "likely"
    assert (
        _confidence(f"{raised}{said}./run.sh: line 3: 3312 Killed                  python t.py\n") != "none"
    )
