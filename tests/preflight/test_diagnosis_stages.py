"""What another program of a script prints says nothing about the one that died before it."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from tests.preflight.diagnosis_logs import STEPS, TYPE_ERROR

_HEAD = "Namespace(lr=0.1, epochs=3)\nUsing device cuda:0\nLoading dataset a\nModel has 1203 parameters\n"


def _steps(end: int) -> str:
    return "".join(f"step {n} loss {3 - n / 50:.3f}\n" for n in range(1, end))


def _bar(start: int, end: int) -> str:
    return "".join(f"{n}%|# | {n}/100 [00:{n:02d}<01:30, 1.02it/s, loss=2.{n}]\n" for n in range(start, end))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Stage one: pretrain", "Stage two: finetune"),
        ("STAGE I", "STAGE II"),
        (_HEAD + "teacher: resnet50", "student: resnet18"),
        (_HEAD, "Reading config b.yaml\nBuilding tokenizer\nSharding corpus"),
        (_HEAD, ""),
        ("python -m proj.pretrain --out a", "python -m proj.finetune --init a"),
    ],
)
def test_steps_that_are_counted_again_behind_another_head_are_of_another_program(
    first: str, second: str
) -> None:
    assert (
        diagnose(f"{first}\n{_steps(20)}{TYPE_ERROR}{second}\n{_steps(40)}done\n").verdict == "user-exception"
    )
    again = f"{first}\n{_steps(20)}{TYPE_ERROR}{first}\nResumed from out/10.pt\n{_steps(40)}done\n"
    assert diagnose(again).verdict == "benign"


@pytest.mark.parametrize(
    ("behind", "verdict"),
    [
        ("Training the decoder\n" + _bar(1, 90), "user-exception"),
        (_bar(19, 100), "user-exception"),
        (_bar(20, 100), "benign"),
        ("Epoch 1/3:  33%|# | 1/3 [00:11<00:20]\n" + _bar(20, 100), "benign"),
    ],
)
def test_a_bar_that_starts_anew_is_of_another_program(behind: str, verdict: str) -> None:
    assert diagnose(f"{_bar(1, 20)}{TYPE_ERROR}{behind}Training done\n").verdict == verdict


def test_a_bar_that_was_full_starts_anew_in_the_same_program() -> None:
    assert diagnose(f"{_bar(1, 101)}{TYPE_ERROR}{_bar(1, 101)}Training done\n").verdict == "benign"


def test_a_run_whose_bars_start_anew_behind_its_own_first_lines_was_started_again() -> None:
    head = "Using device cuda:0\nLoading dataset from /data/a\nModel has 1203 parameters\n"
    again = f"{head}{_bar(1, 20)}{TYPE_ERROR}{head}{_bar(1, 60)}Training done\n"
    assert diagnose(again).verdict == "benign"


@pytest.mark.parametrize(
    ("died", "verdict"),
    [
        ("train.sh: 줄 12:  2201 죽었음                  python train.py", "host-oom-killed"),
        ("train.sh: 行 12:  2201 已杀死                  torchrun train.py", "host-oom-killed"),
        ("job.sh : ligne 14 :  2201 Processus arrêté      srun train.sh", "host-oom-killed"),
        ("train.sh: 第 12 行\uff1a 2201 段错误               (核心已转储) python train.py", "segfault"),
        ("job.sh: linha 14:  2201 Falha de segmentação (imagem do núcleo gravada) ./train", "segfault"),
        ("run.sh: line 3:  2201 Floating point exception(core dumped) ./train", "illegal-instruction"),
        ("ERROR t/test_a.py::test_b - RuntimeError: x\n=== 1 error in 3.1s ===", "unknown"),
    ],
)
def test_a_death_in_the_words_of_a_shell_is_none_of_a_run_that_is_done(died: str, verdict: str) -> None:
    assert diagnose(f"{STEPS}{died}\nTraining finished\n").verdict == verdict


@pytest.mark.parametrize(
    "said",
    [
        "torchrun: Command not found.",
        "fish: Unknown command: torchrun",
        "run.sh: 줄 3: torchrun: 명령어를 찾을 수 없음",
        "python3: can't open file '/w/prep.py': [Errno 2] No such file or directory",
        "AssertionError: One or both of the .idx and .bin files cannot be found at the path prefix /data/a",
    ],
)
def test_what_was_not_found_is_a_missing_file_whatever_a_script_says_behind_it(said: str) -> None:
    assert diagnose(f"{said}\nAll done\n").verdict == "missing-file"


@pytest.mark.parametrize(
    ("said", "steps", "end", "verdict"),
    [
        ("error: CUDA out of memory", 3, "Training finished\n", "cuda-oom"),
        ("error: CUDA out of memory", 4, "Training finished\n", "benign"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", 10, "", "cuda-oom"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", 11, "", "benign"),
    ],
)
def test_enough_steps_behind_an_error_show_that_its_process_lived(
    said: str, steps: int, end: str, verdict: str
) -> None:
    """Three where the run then says that it is done, ten where nothing else in the log shows a failure."""
    assert diagnose(f"{said}\n{_steps(steps)}{end}").verdict == verdict


def test_steps_behind_a_script_that_python_did_not_find_are_of_another_one() -> None:
    said = "python3: can't open file '/w/prep.py': [Errno 2] No such file or directory\n"
    assert diagnose(f"{said}{STEPS}Training finished\n").verdict == "missing-file"
    assert diagnose(f"{said}Retrying with train.py\n{STEPS}Training finished\n").verdict == "benign"


def test_a_key_that_a_script_itself_waits_for_says_nothing_of_a_node_that_did_not_join() -> None:
    script = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    store.wait(["ready"])\n'
    )
    torch = (
        '  File "/v/torch/distributed/distributed_c10d.py", line 900, in _store_based_barrier\n    wait()\n'
    )
    said = "torch.distributed.DistStoreError: wait timeout after 60000ms, keys: /ready\n"
    own, of_torch = (diagnose(script + frame + said).causes[0] for frame in ("", torch))
    assert (own.slug, own.confidence) == ("nccl-timeout-watchdog", "likely")
    assert (of_torch.slug, of_torch.confidence) == ("rendezvous-timeout", "certain")


def test_a_division_by_zero_lacks_no_instruction() -> None:
    died = "failed (exitcode: -{}) local_rank: 1 (pid: 22315) of binary: /usr/bin/python3\n"
    divided, lacked = (diagnose(died.format(number)).causes[0].command for number in (8, 4))
    assert ("divided by zero" in str(divided), "lscpu" in str(lacked)) == (True, True)


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "cuda-oom"),
        ("ValueError: xformers is not available. Make sure it is installed correctly", "missing-module"),
        ("toolkit ERROR    ExecuteUserScriptError:\nErrorMessage \"KeyError: 'TEST'\n \"", "user-exception"),
        (f"{STEPS}Detected KeyboardInterrupt, attempting graceful shutdown ...", "terminated"),
        (
            """RuntimeError: CUDA error: unspecified launch failure
kernel: NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.""",
            "gpu-lost",
        ),
    ],
)
def test_what_platforms_and_servers_say_is_read(log: str, verdict: str) -> None:
    assert diagnose(log + "\n").verdict == verdict
