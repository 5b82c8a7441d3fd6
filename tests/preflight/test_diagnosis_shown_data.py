"""What a program shows of its data, tools or tests is no failure, and a report that looks like it is one."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(4))
_OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
_CRASH = "Segmentation fault (core dumped)"
_HEAD = 'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\n'
_KILLED = "run.sh: line 4: 771 Killed   python t.py\n"
_ILLEGAL = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/t.py", line 3, in <module>\n'
_ILLEGAL += "[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
_OF_RANK_0 = "".join(f"[rank0]: step {n} loss {3 - n / 10:.2f}\n" for n in range(5))


def _prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


_INDENTED = _HEAD.replace("\n", "\n    ") + "ZeroDivisionError: division by zero\n"
_NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system.\n"
_ANSWERS = (
    '{"prompt": "a", "output": "Traceback (most recent call last):\\n'
    '  File \\"a\\", line 1\\nKeyError: 1", "score": 0}\n'
    '{"prompt": "b", "output": "Killed", "score": 0.1}\n{"prompt": "c", "output": "hi", "score": 0.9}\n'
)
_RESTORED = (
    'Traceback (most recent call last):\n  File "/w/t.py", line 8, in <module>\n    M.restore_from(p)\n'
)
_IN_LOADER = '  File "/w/t.py", line 9, in load_model\n    tarfile.open(p)\n'
_IN_LOADER += '  File "/usr/lib/python3.11/tarfile.py", line 1, in open\n'
_IN_LOADER += "    raise E\ntarfile.ReadError: bad\n"
_REFUSED = "_pickle.UnpicklingError: Weights only load failed."
_TYPED = "$ python t.py"
_ORDINAL = f"{_HEAD}RuntimeError: CUDA error: invalid device ordinal\n"
_BOX = (
    "┏━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┓\n"
    "┃ Prompt ┃ Completion                       ┃ Reward ┃\n"
    "┡━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━┩\n"
    "│ why    │ {:<32} │ 0.50   │\n"
    "└────────┴──────────────────────────────────┴────────┘\n"
)
_GRID = (
    "+----+---------------------------------------------+-------+\n"
    "| id | {:<43} | label |\n"
    "+====+=============================================+=======+\n"
    "|  1 | hello                                       | py    |\n"
    "+----+---------------------------------------------+-------+\n"
    "|  2 | {:<43} | c     |\n"
    "+----+---------------------------------------------+-------+\n"
)


@pytest.mark.parametrize(
    "log",
    [
        f"| text | label |\n|------|-------|\n| {_OOM} | gpu |\n| {_CRASH} | c |\n{_STEPS}",
        "| error class | count |\n|---|---|\n| CUDA out of memory | 0 |\n| Killed | 0 |\n",
        "| at | status |\n|---|---|\n| 1 | ok |\n| error | n | of |\n|---|---|---|\n| Killed | 3 | 9 |\n",
        _BOX.format("Killed") + _STEPS,
        _BOX.format("RuntimeError: CUDA out of memory") + _STEPS,
        _BOX.format("Traceback (most recent call last):") + _STEPS,
        _GRID.format("text", _CRASH) + _STEPS,
        _GRID.format("text", "make: *** [all] Error 2") + _STEPS,
        f" id |  text  | label\n----+--------+-------\n  1 | {_CRASH} | c\n(1 row)\n{_STEPS}",
        f"                          text  label\n0  {_OOM}      1\n1            hello      0\n{_STEPS}",
        f'id,text,label\n1,"{_OOM}",gpu\n2,"hello",x\n{_STEPS}',
        f"text\tlabel\nRuntimeError: {_OOM}\tgpu\nhello\tx\n{_STEPS}",
        f"prompt: What does RuntimeError: {_OOM} mean?\ncompletion: The GPU is full.\n{_STEPS}",
        f"[episode 3] Tool output:\n{_HEAD}ZeroDivisionError: division by zero\nreward 0.0\n",
        f"Observation:\n{_HEAD}ZeroDivisionError: division by zero\n{_STEPS}",
        _prefixed("[rollout 3] tool=python stdout: ", f"{_HEAD}KeyError: 'x'")
        + f"[rollout 3] reward=0.0\n{_STEPS}",
        "ERROR:root:No such file or directory: '/nope'\n----\nRan 2 tests in 0.010s\n\nOK (skipped=1)\n",
        f"Fix {_OOM} with long texts\nFixed segmentation fault at exit\nRemove the NCCL timeout\n",
        f"SIGHUP received, reloading configuration\n{_STEPS}",
        f"reloaded: SIGHUP received\n{_STEPS}",
        f"ninja: build stopped: subcommand failed.\nusing plain python\n{_STEPS}Training done\n",
        f"Agent: run\n```output\n{_HEAD}NameError: name 'x' is not defined\n```\nreward=1.0\n{_STEPS}",
        "#12 31.2 WARNING: Retrying\n#12 DONE 61.2s\n#13 exporting to image\n#13 DONE 3.1s\n",
        f"1. RuntimeError: {_OOM} is of large batches.\n2. {_CRASH} is a crash.\nbleu 0.31\n",
        f"Loaded 2 classes: ['CUDA out of memory', '{_CRASH}']\n{_STEPS}",
        f"make: [Makefile:3: clean] Error 1 (ignored)\n{_STEPS}",
        f"<|im_start|>user\nI see\n{_CRASH}<|im_end|>\n<|im_start|>assistant\nUse it<|im_end|>\n{_STEPS}",
        f"Trying:\n    f(0)\nExpecting:\n    {_INDENTED}ok\n1 passed and 0 failed.\nTest passed.\n",
        f'alerts:\n  - pattern: "{_OOM}"\n    action: page\n{_STEPS}',
        "[check] kills for lack of memory: none\n[check] disk full: no\n[check] all passed\n",
        "[ok] reports CUDA out of memory\n[ok] ends when one rank dies with SIGSEGV\n2 passed, 0 failed\n",
        _ANSWERS + "mean score 0.4\n",
        f"=======  =====\nclass    count\n=======  =====\nBus error  3\n{_OOM}  1\n=======  =====\n{_STEPS}",
        f"CUDA out of memory   ████████ 12\nSegmentation fault   █ 1\n{_STEPS}",
        f"             precision  recall  support\nsegmentation fault  0.81  0.70  50\n{_STEPS}",
        f"commit 3a4b5c6\n    Fix CUDA out of memory\ncommit 1a2b3c4\n    Handle {_CRASH}\n{_STEPS}",
        f"3a4b5c6 fix: CUDA out of memory in evaluation\n1a2b3c4 docs(x): {_CRASH}\nStarting training\n",
        "usage: t.py [--on-oom WHAT]\n  --on-oom WHAT\n                  what to do at CUDA out of memory\n",
        f"S-12\tNo space left on device\nT-12\tKein Platz\nH-12\t-0.3\t{_CRASH}\nbleu 27.1\n",
        f'   12  def f(e):\n   13      if "CUDA out of memory" in str(e):\n{_STEPS}',
        f"HYP: the process was Killed\nREF: {_CRASH}\n{_STEPS}",
        f"{_ANSWERS}{_STEPS}{_ANSWERS}{_STEPS}",
        f"{_TYPED} --bs 64\n{_HEAD}torch.OutOfMemoryError: {_OOM}\n{_TYPED}\n{_STEPS}Training complete\n",
    ],
)  # fmt: skip
def test_what_a_program_shows_blames_nothing(log: str) -> None:
    assert diagnose(log).verdict == "benign"


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (f"| rank | status | error |\n|---|---|---|\n| 3 | failed | {_OOM} |\n", "S20"),
        (f"| host | text |\n|------|------|\n| n1 | {_OOM} |\n{_STEPS}", "S20"),
        (f"| text | label |\n|------|-------|\n| {_OOM} | gpu |\n", "S20"),  # pasted for what it says
        (_GRID.format("error", _CRASH).replace("| id |", "| rank |") + _STEPS, "S71"),
        (f"| epoch | loss |\n|---|---|\n| 1 | 2.31 |\ntorch.OutOfMemoryError: {_OOM}\n", "S20"),
        (f'time,rank,text,label\n10:00,1,"{_OOM}",gpu\n10:01,2,"hello",x\n{_STEPS}', "S20"),
        (f"| text | x | n |\n|---|---|---|\n| a | b | 1 |\n10:00:01 | ERROR | {_OOM}\n{_STEPS}", "S20"),
        (f"{_BOX.format('Killed')}{_STEPS}torch.OutOfMemoryError: {_OOM}\n", "S20"),
        (f"Observation:\n{_HEAD}KeyError: 'x'\n{_STEPS}{_KILLED}", "S70"),
        (f"completion worker 3 failed: {_OOM}\n", "S20"),
        (f"Fix the batch size: {_OOM}\n", "S20"),
        (f"SIGHUP received, reloading configuration\n{_STEPS}{_KILLED}", "S70"),
        ("A1: loading\nA1: CUDA out of memory. Tried to allocate 2.00 GiB\n", "S20"),
        (f"Q1: step 10\nQ2: {_CRASH}\n", "S71"),
        ("Input: /data/a.jsonl\nOutput: No space left on device\n", "S76"),
        (f"Invalid value for '--lr': using 0.1\n{_STEPS}{_KILLED}", "S70"),
        (f"Invalid value for '--lr': 'fast' is not a float\n{_KILLED}", "S98"),
        (f"$ ulimit -t 3600\n$ python t.py\n{_STEPS}Killed\n", "S70"),
        ("$ ulimit -t 3600 is for the login node\nstep 1 loss 2\nKilled\n", "S70"),
        (f"{_STEPS}ERROR trainer: gradient norm exploded, stopping\ndone\n", "S119"),
        (f"{_TYPED} --bs 64\n{_HEAD}torch.OutOfMemoryError: {_OOM}\n$ python eval.py\n{_STEPS}done\n", "S20"),
        (f"<|im_start|>user\nhello\n{_STEPS}{_CRASH}\n", "S71"),
        ("[check] disk full: yes\nOSError: [Errno 28] No space left on device\n", "S76"),
        (f"{_ANSWERS}torch.OutOfMemoryError: {_OOM}\n", "S20"),
        (f'{{"time": "10:00", "prompt": "p", "output": "{_OOM}"}}\n' * 3, "S20"),
        ("FAILED tests/test_x.py::test_x - assert 4 == 5\n= 1 failed in 0.11s =\n", "S00"),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 8.00GiB\n", "S20"),
        ("Warning  DeadlineExceeded  2m  job  Job was active longer than specified deadline\n", "S95"),
        ("Failed to initialize NVML: Driver/library version mismatch\n" + _NO_DRIVER, "S34"),
        # What stands below a table, and is none of its rows.
        (f"| a | b |\n|---|---|\n| x | y |\nworker 3 | {_OOM}\n{_STEPS}", "S20"),
        (f"text,label\nfound: {_OOM}, on 0\nRuntimeError: {_OOM}, giving up, bye\n{_STEPS}", "S20"),
        (f"  progress of ranks\n0 {_OOM}\n1 waiting\n{_STEPS}", "S20"),
        (f"My sweep says:\n| config | result |\n|--------|-----|\n| bs 64 | {_OOM} |\nWhy?\n", "S20"),
        # A program that died below such a heading, with such a prefix, or between such marks.
        (f"Generating model output:\n{_HEAD}KeyError: 'past'\n", "S00"),
        (f"completion:\n{_HEAD}torch.OutOfMemoryError: {_OOM}\nwandb: Waiting\n", "S20"),
        (_prefixed("[tool worker output] ", f"{_HEAD}torch.OutOfMemoryError: {_OOM}"), "S20"),
        (f"<|im_start|>assistant\npartly\nRuntimeError: {_OOM}\ntokens: <|im_end|> is 151645\n", "S20"),
        (f"<system> job 4711 started\n{_STEPS}RuntimeError: {_OOM}\nends </s>\n", "S20"),
        # Words of a default, a list or a signal in a failure.
        ("CUDA out of memory. Tried to allocate 2.00 GiB. It has 79 GiB, using 78.2 GiB\n", "S20"),
        ("No CUDA GPUs are available: none\n", "S37"),
        (f"match: {_OOM}\n", "S20"),
        ("Received SIGHUP while the dataloader reloads, shutting down\n", "S72"),
        (f"Fixed batch of 64 failed: {_OOM}\nAdded nothing\n", "S20"),
        # What builds, schedulers and libraries say in words of their own.
        ("#9 61.23 ERROR: Could not pack: [Errno 28] No space left on device\n#9 ERROR: exit 1\n", "S76"),
        ("Agent: run\n```\n" + _HEAD + "NameError: name 'x' is not defined\n```\nWhat should I do?\n", "S00"),
        ("In 'config': Could not find 'optimizer/adamx'\n\nAvailable options in 'optimizer':\n", "S98"),
        (f"{_STEPS}=>> PBS: job killed: node 3 (n12) requested job terminate\n", "S78"),
        ("[1,0]<stderr>:[0]: Stall inspector shutting down the job\n", "S54"),
        ("TimeoutError: RPC call to update_weight timed out after 300 s\n", "S138"),
        (_RESTORED + "tarfile.ReadError: not a gzip file\n", "S85"),
        (_RESTORED.replace("M.restore_from", "WebDataset") + "tarfile.ReadError: not a gzip file\n", "S108"),
        ("ValueError: The config file at acc.yaml had unknown keys: ['a', 'b']\n", "S98"),
        (f"1. rank 0: {_OOM}\n2. rank 1: NCCL error\n", "S20"),
        (f"Run failed with 2 errors:\n 1) {_OOM}\n 2) RuntimeError: no checkpoint\nleft\n", "S20"),
        (f"1. torch.OutOfMemoryError: {_OOM}\n2. {_CRASH}\nwandb: Synced 5 files\n", "S20"),
        (f"1) build\n2) train: torch.OutOfMemoryError: {_OOM}\nscript ended\n", "S20"),
        (f"torch.OutOfMemoryError: {_OOM} == 12\n", "S20"),
        (f"completion:\n{_HEAD}torch.OutOfMemoryError: {_OOM}\n\nreal\t0m12.3s\nuser\t0m10.1s\n", "S20"),
        (f"<|im_start|>user\nhi\n{_ILLEGAL}<|im_start|>user\nhello<|im_end|>\n", "S38"),
        (f"[INST] one\ntorch.OutOfMemoryError: {_OOM}\n[INST] two [/INST]\n", "S20"),
        (f"| name | outcome |\n|---|---|\n| a | ok |\n| b | {_OOM} |\n{_STEPS}", "S20"),
        (f"3f1a22bb test: {_CRASH}\n", "S71"),
        (f"====  ====\nrank  what\n====  ====\n0     {_OOM}\n1     waits\n====  ====\n{_STEPS}", "S20"),
        (_RESTORED.replace("M.restore_from(p)", "f()") + _IN_LOADER, "S85"),
        ("ERROR worker: CUDA out of memory while prefetching, giving up\ndone\n", "S20"),
        ("step 1 loss 2.1\nnode n3 will be preempted in 30 s\nstep 2 loss 2.0\n", "S96"),
        ("Ran 3 tests in 0.2s\n\nOK\npython t.py\nERROR: lr must be positive, stopping\n", "S119"),
        ("No solution found when resolving dependencies:\n╰─▶ Because flash-attn was not found\n", "S89"),
        (f"{_REFUSED} This file can still be loaded\n", "S117"),
        (f"{_REFUSED} \n Please report: WeightsUnpickler error: Unsupported operand 118\n", "S85"),
        ("AssertionError: dp(1) * tp(4) != WORLD_SIZE(8)\n", "S112"),
        ("ValueError: world_size 6 != tensor 4 * pipeline 2\n", "S112"),
        (f"{_STEPS}Spot instance interruption, instance will be terminated in 120 seconds\n", "S96"),
        (f"{_TYPED} --bs 64\n{_HEAD}torch.OutOfMemoryError: {_OOM}\n{_TYPED}\nloaded\n{_ORDINAL}", "S31"),
    ],
)  # fmt: skip
def test_a_report_that_looks_like_shown_text_is_the_cause(log: str, code: str) -> None:
    assert diagnose(log).causes[0].code == code


@pytest.mark.parametrize(
    "log",
    [
        "python train.py\nmake: *** [train] Error 2\ndone\n",
        "[1/4] c++ a.o\nninja: build stopped: subcommand failed.\ndone\n",
        "[error] schedule 'cosin' unknown, leaving\n[1]+  Exit 2                  python train.py\n",
        "Ran 2 tests in 0.011s\n\nFAILED (errors=1)\nmake: *** [test] Error 1\nOK\n",
    ],
)
def test_a_command_that_says_how_it_ended_is_not_healthy(log: str) -> None:
    assert diagnose(log).verdict != "benign"


def test_a_rank_that_others_outlived_without_a_step_above_is_not_certain() -> None:
    assert diagnose(f"{_ILLEGAL}{_OF_RANK_0}Training complete\n").causes[0].confidence == "likely"
    assert diagnose(f"{_ILLEGAL}{_OF_RANK_0}").causes[0].confidence == "certain"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ("Step\tTraining Loss\n10\t2.31\n20\tnan\n30\tnan\n40\tnan\n", "nan-loss"),
        (
            "| step | loss |\n|------|------|\n| 10 | 2.3 |\n| 20 | nan |\n| 30 | nan |\n| 40 | nan |\n",
            "nan-loss",
        ),
        ("epoch  train_loss  valid_loss\n0  2.3  2.2\n1  nan  nan\n2  nan  nan\n3  nan  nan\n", "nan-loss"),
        ("Step\tTraining Loss\tValidation Loss\n10\t2.31\tnan\n20\t2.2\tnan\n30\t2.1\tnan\n", "benign"),
        ("Step\tTraining Loss\treward\n1\t0.000000\t0.1\n2\t0.000000\t0.2\n3\t0.000100\t0.2\n", "benign"),
        ("lr\tloss\n0.1\t2.31\n1\tnan\n10\tnan\n100\tnan\n", "benign"),
        ("Step\tTraining Loss\n10\tNo log\n20\t2.2\n30\t2.1\n", "benign"),
    ],
)
def test_a_table_of_steps_is_read_as_steps(log: str, verdict: str) -> None:
    assert diagnose(log).verdict == verdict


def test_what_torch_says_of_both_kinds_of_checkpoint_is_certain_of_neither() -> None:
    assert diagnose(f"{_REFUSED} This file can still be loaded\n").causes[0].confidence != "certain"
