"""Failures of trainers, model servers and accelerators of 2024 to 2026: the first cause, and what to do."""

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.signature_matcher import find_first_match

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in <module>\n    run(x)\n'
_GRACEFUL = "/v/lib/python3.11/site-packages/lightning/call.py:54: UserWarning: Detected KeyboardInterrupt,"
_GRACEFUL += ' attempting graceful shutdown...\n  rank_zero_warn("Detected KeyboardInterrupt")\n'
_STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(4))
_STAMP = "2025-06-23 18:40:15"
_LACKS = "./all.sh: line 27: /h/v/bin/python: No such file or directory\n"
_PROMPT = "(e) ann@node-1:~/w$ bash train.sh\n"
_OOM = _HEAD + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
_CUDA = "Installed CUDA version 12.0 does not match the version torch was compiled with 12.6"
_XET = "RuntimeError: Data processing error: CAS service error : "
_SIGNALLED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 1\n"
_INTERRUPTED = (
    f"{_HEAD}{_SIGNALLED}\nDuring handling of the above exception, another exception occurred:\n\n"
    'Traceback (most recent call last):\n  File "/usr/lib/python3.8/logging/__init__.py", line 1697, in'
    " isEnabledFor\n    return self._cache[level]\nKeyError: 30\n\n"
    f"During handling of the above exception, another exception occurred:\n\n{_HEAD}{_SIGNALLED}"
)
_ENGINE = (
    'Traceback (most recent call last):\n  File "/opt/v/engine.py", line 8, in wait\n    pg()\n'
    "KeyboardInterrupt\n\nDuring handling of the above exception, another exception occurred:\n\n"
    + _HEAD
    + "SystemExit: 15\n"
)


@pytest.mark.parametrize(
    ("log", "code", "fix"),
    [
        # A kernel that does not fit is no lack of memory.
        (
            _HEAD + "torch._inductor.exc.InductorError: RuntimeError: No valid triton configs.\n"
            "OutOfMemoryError: out of resource: triton_per_fused_add_7\n"
            "Required: 327768 Hardware limit:232448\n",
            "S68",
            "without torch.compile",
        ),
        (
            _HEAD + "torch._inductor.exc.TritonMissing: Cannot find a working triton installation.\n",
            "S68",
            "on Windows triton-windows",
        ),
        # The store of the Hub's files refuses, or does not answer.
        (_HEAD + _XET + "Reqwest Error: HTTP status client error (401 Unauthorized)\n", "S81", "hf auth"),
        (
            _HEAD + _XET + "Reqwest Error: HTTP status server error (502 Bad Gateway)\n",
            "S82",
            "start it again later",
        ),
        (_HEAD + "ServicePollForTokenError: Failed to read port info after 30.0 seconds.\n", "S115", "wandb"),
        (
            _HEAD + "NotImplementedError: Unsloth currently only works on NVIDIA GPUs and Intel GPUs.\n",
            "S37",
            "gpulaunch preflight HOST",
        ),
        (
            _HEAD + "AssertionError: Expert data parallel size should be divisible by the shard factor\n",
            "S112",
            "degrees",
        ),
        (
            _HEAD + "AssertionError: local_world_size (16) must be less than or equal to the number of"
            " visible devices (8).\n",
            "S31",
            "as many ranks as visible GPUs",
        ),
        (_HEAD + "RuntimeError: ACL stream synchronize failed, error code:507018\n", "S136", "npu-smi"),
        (_HEAD + "ValueError: FSDP requires PyTorch >= 2.1.0.a0+32f93b1\n", "S89", "install"),
        # The first column of a path that begins with av is no reader of videos.
        (
            (
                'Traceback (most recent call last):\n  File "/h/avery/vllm/ray_utils.py", line 2, in wait\n'
                "    raise ValueError(\nValueError: no placement group within 1800 seconds\n"
            ),
            "S00",
            "",
        ),
        (_ENGINE, "S78", "resume"),
        (_GRACEFUL, "S78", "resume"),
        # Advice by words.
        (
            _HEAD + "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy"
            " requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`\n",
            "S20",
            "smaller max_num_seqs",
        ),
        ("CUDA Error: out of memory at /w/csrc/cumem_allocator.cpp:139\n", "S20", "before wake_up()"),
        (
            _HEAD + "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent"
            " error. Ran out of memory in memory space hbm. Used 21.90G of 7.48G hbm.\n",
            "S20",
            "more chips in the mesh",
        ),
        (
            _HEAD + "ValueError: Unknown world 'species'. Available: ['gravity', 'extra_dimensions']\n",
            "S00",
            "one of the names",
        ),
        (
            _HEAD + "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays\n",
            "S00",
            "writer_batch_size",
        ),
        (_HEAD + "TimeoutError\n", "S00", "longer"),
        (
            _HEAD + "openai.BadRequestError: Error code: 400 - {'error': {'message': \"This model's maximum"
            ' context length is 65536 tokens."}}\n',
            "S00",
            "--max-model-len",
        ),
        (
            "Failed to read file '/d/a.json' with error <class 'pyarrow.lib.ArrowInvalid'>: Could not"
            " convert 'x' with type str: tried to convert to double\n"
            + _HEAD
            + "ValueError: Not able to read records in the JSON file at /d/a.json.\n",
            "S108",
            "of one type",
        ),
        # The traceback of a signal shows what it interrupted.
        (_INTERRUPTED, "S72", "gpulaunch run"),
        # A server of the run's own hosts is no store of files.
        (
            (
                "ERROR: step failed: Failed after 3 retries. Last error: ClientConnectorError(ConnectionKey("
                "host='10.83.58.106', port=42197), ConnectionRefusedError(111, \"Connect call failed\"))\n"
            ),
            "S138",
            "start it before the run",
        ),
        # cuDNN tries plans, and says which did not fit.
        (
            "/v/torch/autograd/graph.py:744: UserWarning: Plan failed with an OutOfMemoryError: CUDA out of"
            " memory. Tried to allocate 780.00 MiB.\n"
            + _HEAD
            + "RuntimeError: Parent directory /data/pkl does not exist.\n",
            "S92",
            "absolute paths",
        ),
        (
            (
                "[17086] - ERROR:  nhc:  Health check failed:  check_gpu_bw: D2H test on GPU 0 failed.\n"
                "[17086] - ERROR:  nhc:  1 health checks failed.\nHealth checks completed.\n"
            ),
            "S114",
            "leave the host out",
        ),
        # The driver's own reason is above what came of it.
        (
            (
                "[1.1] NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
                "[1.2] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
            ),
            "S35",
            "nvidia-open",
        ),
        # A shape is no list of names.
        (f"{_HEAD}ValueError: Invalid shape (3, 4): must be (N, C)\n", "S00", "print the shapes"),
        # torch 2.14 takes C++20 and has lost what was deprecated.
        (
            (
                "ATen/ATen.h:4:2: error: #error C++20 or later compatible compiler is required to use ATen.\n"
                f"ninja: build stopped.\n{_HEAD}RuntimeError: Error building extension 'ops'\n"
            ),
            "S68",
            "-std=c++20",
        ),
        (
            (
                f"{_HEAD}RuntimeError: This function was deprecated since version 1.9 and is now removed."
                " `torch.cholesky` is deprecated in favor of `torch.linalg.cholesky`.\n"
            ),
            "S00",
            "in place of the removed call",
        ),
    ],
)
def test_the_first_cause_and_what_to_do(log: str, code: str, fix: str) -> None:
    first = diagnose(log).causes[0]
    assert first.code == code
    assert fix in first.fix


@pytest.mark.parametrize(
    "log",
    [
        f"{_CUDA} but since the APIs are compatible, accepting this combination\n{_STEPS}",
        "".join(
            f"[WARNING] NaN loss detected at step {n}! Skipping step.\nloaded {n} shards\n" for n in (81, 92)
        ),
        f"FlashAttention is not installed.\nmodel of 12 layers\nFlashAttention is not installed.\n{_STEPS}",
        f"{_STEPS}Failed to read the number of CPUs. Setting default value 4\n",
        f"{_STEPS}| cause | runs |\n|---|---|\n| CUDA out of memory | 3 |\n| NaN | 1 |\nreport written\n",
        f"{_PROMPT}{_OOM}{_PROMPT}{_STEPS}" + "".join(f"step {n} loss 1.{n}\n" for n in range(4, 20)),
    ],
)
def test_words_of_what_was_survived_are_no_failure(log: str) -> None:
    assert diagnose(log).verdict == "benign"


def test_a_step_that_is_skipped_is_no_loss_of_a_run() -> None:
    assert find_first_match("[WARNING] NaN loss detected at step 816! Skipping step.") is None
    assert find_first_match("NaN loss detected at step 816").code == "S18"  # type: ignore[union-attr]


def test_a_command_that_was_not_typed_before_says_nothing_of_the_failed_one() -> None:
    others = "".join(f"step {n} loss 1.{n}\n" for n in range(20))
    assert diagnose(f"{_PROMPT}{_OOM}(e) ann@node-1:~/w$ cat old.log\n{others}").verdict == "cuda-oom"


def test_of_two_processes_the_one_that_answers_says_why() -> None:
    asked = _HEAD + "Exception: Request failed: 500, Internal Server Error\n"
    answer = "(VllmWorker pid=3) ERROR 07-03 12:10:11 [a.py:5] RuntimeError: Weight update group already"
    first, *_ = diagnose(f"{answer} initialized. Call close_communicator first.\n{asked}").causes
    assert "Weight update group" in first.cause
    assert first.command.startswith("restart trl vllm-serve")


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (
            "".join(
                f"{_STAMP} - t - INFO - iteration {n}/50\n{_STAMP} - m - ERROR - image failed: Torch"
                f" not compiled with CUDA enabled\n{_STAMP} - m - INFO - Using fallback image\n"
                for n in range(9)
            ),
            "S37",
        ),
        (f"cleaning\n{_LACKS}training\nto follow it: tail -f log\n{_LACKS}cleaned\n{_LACKS}", "S92"),
    ],
)
def test_an_error_at_the_end_is_named_by_its_row_where_the_run_went_on(log: str, code: str) -> None:
    found = diagnose(log).causes[0]
    assert (found.code, found.confidence) == (code, "possible")
