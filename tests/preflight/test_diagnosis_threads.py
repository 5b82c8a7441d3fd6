"""Failures as people post them: messages that start below, pastes without a start, shells in other words."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in <module>\n    run(x)\n'
_STEPS = "".join(f"step {n} loss {3 - n / 10:.2f}\n" for n in range(4))
_IN_SAFETENSORS = _HEAD + '  File "/v/lib/python3.12/site-packages/safetensors/torch.py", line 488, in {}\n'
_SHARED = "Some tensors share memory, this will lead to duplicate memory on disk: [{'lm_head.weight', 'wte'}]"
_PTX = "RuntimeError: Internal Triton PTX codegen error:"
_BLACKWELL = "ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'"
_PTXAS = (
    "subprocess.CalledProcessError: Command '['/v/triton/backends/nvidia/bin/ptxas', '--gpu-name=sm_120',"
)
_BAR = "Epoch {0}: 100%|██████████| 391/391 [01:55<00:00,  3.38it/s, v_num=1, loss=0.59{0}]\n"
_UNLOGGED = "lightning.fabric.utilities.exceptions.MisconfigurationException: `ModelCheckpoint(monitor="
_UNLOGGED += "'val/nll')` could not find the monitored key in the returned metrics: ['lr', 'loss']\n"
_SPACED = '[rank2]:   File "/w/t.py", line 60, in batch\n\n[rank2]:     x = next(it)\n\n'
_REFUSED = "_pickle.UnpicklingError: Weights only load failed..."
_BEST = "ValueError: --load_best_model_at_end requires the save and eval strategy to match\n"
_THREAD = f"Exception in thread Thread-3:\n{_HEAD}RuntimeError: can't create new thread at "
_THREAD += "interpreter shutdown\n"
_AT_EXIT = f"Error in atexit._run_exitfuncs:\n{_HEAD}"
_IN_JAX = '  File "/v/lib/python3.12/site-packages/jax/_src/distributed.py", line 9, in shutdown\n'
_PODS = "NAME    READY   STATUS             RESTARTS   AGE\n"
_BIND = "srun: error: Task launch for StepId=2.2 failed on node n4: Unable to satisfy cpu bind request\n"


@pytest.mark.parametrize(
    ("log", "code", "says"),
    [
        # A message that starts below the exception, of what is saved, and of what is read.
        (f"{_IN_SAFETENSORS.format('_flatten')}RuntimeError: \n     {_SHARED}\n", "S00", "save_model"),
        (f"{_IN_SAFETENSORS.format('load_file')}RuntimeError: \n     unable to mmap\n", "S85", ""),
        # The reason is below the heading, or in the command that failed.
        (f"(Worker pid=38) {_PTX}\n(Worker pid=38) {_BLACKWELL}\n(Worker pid=38)\n", "S32", "newer torch"),
        (f"{_PTX} ptxas died\n", "S68", ""),
        (f"{_HEAD}{_PTXAS} '/tmp/a.ptx']' returned non-zero exit status 255.\n", "S68", "newer torch"),
        # A paste that starts behind the bars before the failure; one with blank lines; indented ones.
        (_UNLOGGED + _BAR.format(1), "S00", "monitor="),
        (f"{_SPACED}[rank2]: StopIteration\n", "S00", "loader"),
        ("StopIteration: Caught StopIteration in replica 0 on device 0.\n", "S00", "DataParallel"),
        (f"{_HEAD}RuntimeError: generator raised StopIteration\n", "S00", "ranks times workers"),
        (f"  {_REFUSED}\n  WeightsUnpickler error: Unsupported global: GLOBAL x\n", "S117", "weights_only"),
        (f"  {_BEST}", "S00", "agree"),
        # Numbers in an assertion, one of them none.
        (f"{_HEAD}AssertionError: tensor([[0.1, -2e-3, nan, nan]])\n", "S19", "bf16"),
        (f"{_HEAD}AssertionError: tensor([0.1, 0.2])\n", "S00", "must hold"),
        (f"{_HEAD}    assert a == b\nAssertionError\n", "S00", "both sides"),
        # Shells of Windows in other languages.
        ("'llamafactory-cli' 不是内部或外部命令\n或批处理文件。\n", "S110", "activate"),
        ('Der Befehl "torchrun" ist entweder falsch geschrieben oder\nnicht da.\n', "S110", ""),
        ("torchrun : 无法将“torchrun”项识别为 cmdlet、函数、脚本文件的名称。\n", "S110", ""),
        ("Key 'period' not in 'ModelConf'\n    full_key: model.period\n", "S98", "argument"),
        (f"{_HEAD}ValueError: Cannot provide a placement group requiring 4.0 GPUs in 9 s.\n", "S31", "Ray"),
        ("RuntimeError: level_zero failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n", "S40", "i915"),
        (_BIND, "S44", "cpu-bind"),
        (f"{_HEAD}torch.utils.checkpoint.CheckpointError: Recomputed values for\n", "S00", "use_reentrant"),
        (f"{_HEAD}AssertionError: no_sync context manager is incompatible with\n", "S00", "deepspeed=="),
        (f"{_HEAD}AttributeError: 'AdamW' object has no attribute 'train'\n", "S00", "accelerate"),
        (f"{_HEAD}AttributeError: 'Net' object has no attribute 'train'\n", "S00", "print the type"),
        (f"{_HEAD}datasets.arrow_writer.SchemaInferenceError: Please pass `x`\n", "S00", "filter"),
        ("canceled: timed out after waiting 10m0s for synchronized replica start\n", "S52", "missing"),
        ("ERROR [w.py:9] Failed to load NCCL library. If you have it, set its path.\n", "S119", ""),
        (
            f"{_PODS}t-0  0/2     CrashLoopBackOff   14         11m\nq-0  1/1     Running   0   9m\n",
            "S99",
            "",
        ),
        (f"{_PODS}t-0  0/1     Error              0          2m\n", "S99", ""),
        ('RuntimeError: Backend "soundfile" is not one of available backends: [].\n', "S89", "soundfile"),
        ("RuntimeError: Couldn't find appropriate backend to handle uri a.mp3\n", "S89", "ffmpeg"),
        ("RuntimeError: Failed to load audio from /d/a.mp3\n", "S00", "ffprobe"),
        ("formats: can't open input file `/d/1.wav': No such file or directory\n", "S92", ""),
        # What fails while a process ends is named where a row knows it, or something failed before.
        (f"{_STEPS}{_AT_EXIT}OSError: [Errno 28] No space left on device\n", "S76", "free space"),
        (f"{_STEPS}{_HEAD}KeyError: 'x'\n{_THREAD}", "S00", "lacks the key"),
        (f"{_STEPS}{_AT_EXIT}KeyError: 'out'\n", "S00", "lacks the key"),
    ],
)
def test_the_first_cause_and_what_to_do(log: str, code: str, says: str) -> None:
    first = diagnose(log).causes[0]
    assert first.code == code
    assert says in first.fix


@pytest.mark.parametrize(
    "log",
    [
        _STEPS + _THREAD,
        f"{_PODS}t-0  1/1     Running   3          11m\nt-1  0/1     Completed   0   9m\n",
        f"formats: 3 files\n{_STEPS}can't open input file list: falling back to the default\n",
        f"{_STEPS}{_AT_EXIT}{_IN_JAX}jaxlib.XlaRuntimeError: DEADLINE_EXCEEDED: Deadline Exceeded\n",
        f"{_STEPS}Training finished\n{_AT_EXIT}{_IN_JAX}BrokenPipeError: [Errno 32] Broken pipe\n",
        f"{_STEPS}StopIteration: early stopping\nTraining finished\n",
        f"Key 'lm_head.weight' not in 'model.safetensors'\n{_STEPS}",
        f"{_STEPS}E client.cc:481] Failed to disconnect from coordination service with status: DEADLINE\n",
        _UNLOGGED + "".join(map(_BAR.format, range(4))),
        f"loading\nImportError: no fused kernels, using eager\n{_BAR.format(0)}",
    ],
)
def test_what_a_run_outlived_or_ended_before_is_no_failure(log: str) -> None:
    assert diagnose(log).verdict == "benign"
