"""Failures in the words of Horovod, Determined, SkyPilot, Condor, Paddle, Orbax, streams and builds."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in <module>\n    run(x)\n'
_WAITS = (
    "[1,0]<stderr>:[2026-04-20 20:29:29. 89: W horovod/common/stall_inspector.cc:107] One or more tensors"
    " were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for"
    " remainder of ranks for more than 9 seconds.\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:2: [fc.bias]\n"
)
_STALLED = (
    '[1,0]<stderr>:One or more rank (marked by "!") is stalled for longer than 90 seconds. Will shutdown.\n'
)
_ENDED = "[2026-04-28T08:20:22Z] c4 || INFO: container failed with non-zero exit code: {0} (exit code {0})\n"
_PROVISION = "E 11-26 17:47:34 cloud_vm_ray_backend.py:1118] *** Failed provisioning the cluster. ***\n"
_SSH = f"{_HEAD}RuntimeError: Failed to SSH to 10.1.0.9 after timeout 600s, with Timeout: it is not ready.\n"
_PADDLE = (
    f"{_HEAD}SystemError: (Fatal) Operator relu raises an paddle::memory::allocation::BadAlloc exception.\n"
    "The exception content is\n:ResourceExhaustedError: \n\nOut of memory error on GPU 3. Cannot allocate"
    " 96.0MB memory on GPU 3, 15.7GB memory has been allocated and available memory is only 57.8MB.\n"
)
_BACK_OFF = (
    "  Type     Reason   Age    From     Message\n  Normal   Created  2m34s  kubelet  Started init\n"
    "  Warning  BackOff  2m49s  kubelet  Back-off restarting failed container sync in pod train-worker-0\n"
)
_APEX = (
    f"{_HEAD}RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the"
    " version used to compile Pytorch binaries.  Pytorch binaries were compiled with Cuda 12.8.\n"
)
_CMAKE = (
    "CMake Error at cmake/cuDNN.cmake:3 (find_path):\n  Could not find CUDNN_INCLUDE_DIR using: cudnn.h\n"
    "-- Configuring incomplete, errors occurred!\nerror: subprocess-exited-with-error\n"
)
_ABORT = (
    "2026-07-05 11:20:11.12: E tensorflow/core/common_runtime/base_collective_executor.cc:249]"
    " BaseCollectiveExecutor::StartAbort UNAVAILABLE: Collective ops is aborted by: Socket closed: Connection"
    " reset by peer\n"
    "Fatal Python error: Aborted\n"
)
_TREE = (
    f"{_HEAD}ValueError: User-provided restore item and on-disk value metadata tree structures do not match: "
)
_RESTORED = (
    f"{_HEAD}ValueError: restore produced a pytree structure that does not match the caller's template.\n"
)
_LAYER = "2026-06-03T07:55:18Z failed to pull image: failed to register layer: ID 78 cannot be mapped\n"
_STOPPED = (
    "2026-08-17 06:58:06,130 - trains.Task - WARNING - ### TASK STOPPED - USER ABORTED - STATUS CHANGED ###\n"
)
_SYMBOL = (
    f"{_HEAD}OSError: /v/libtransformer_engine.so: undefined symbol: cublasLtNew, version libcublasLt.so.13\n"
)
_RESOLVES = '  File "/usr/lib/python3.12/socket.py", line 967, in getaddrinfo\n    for res in it:\n'
_UNNAMED = "socket.gaierror: [Errno -3] Temporary failure in name resolution\n"
_OF_CLIENT = (
    f'{_HEAD}  File "/v/site-packages/aiohttp/connector.py", line 8, in f\n    x\n{_RESOLVES}{_UNNAMED}'
)
_OF_TORCH = (
    f'{_HEAD}  File "/v/site-packages/torch/distributed/rendezvous.py", line 8, in _create\n    x\n'
    f"{_RESOLVES}{_UNNAMED}"
)
_GEMM = "Exception: Capture failed: Assertion error (/deepgemm/csrc/a.hpp:57): arch_major == 10\n"
_KOHYA = f"{_HEAD}ImportError: No lion_pytorch / lion_pytorch がインストールされていないようです\n"
_HELD = "105.0  ana  11/7 Job in status 2 put on hold by SYSTEM_PERIODIC_HOLD due to memory usage 3000.\n"
_XLA = "F0308 10:11:12.1 44 c.cc:400] Non-OK-status: status.status() status: UNIMPLEMENTED: no rewrite\n"
_STEPS = "".join(f"step {at} loss 2.{9 - at}\n" for at in range(1, 6))
_OF_RANK = "".join(f"[1,0]<stdout>:step {at} loss 2.{9 - at}\n" for at in range(1, 6))


@pytest.mark.parametrize(
    ("log", "code", "says"),
    [
        (_WAITS, "S54", "names the ranks"),
        (_OF_RANK + _STALLED, "S54", ""),
        (_STEPS + _ENDED.format(137), "S70", ""),
        (_PROVISION, "S137", "another zone"),
        (_SSH, "S64", ""),
        (_PADDLE, "S20", "FLAGS_gpu_memory_limit_mb"),
        (_BACK_OFF, "S99", "--all-containers"),
        (_APEX, "S68", "toolkit"),
        (_CMAKE, "S68", "CUDNN_PATH"),
        (f"{_STEPS}{_ABORT}", "S57", ""),
        (_TREE + "{'a': 1}\n", "S88", ""),
        (_RESTORED, "S88", ""),
        (_LAYER, "S111", ""),
        (_STEPS + _STOPPED, "S78", ""),
        (
            f"{_HEAD}ValueError: Invalid rank 8, rank should be in the interval [0, 7]\n",
            "S00",
            "num_replicas",
        ),
        (_SYMBOL, "S33", "nvidia-*"),
        (_OF_CLIENT, "S82", ""),
        (_OF_TORCH, "S51", ""),
        (f"{_HEAD}ConnectionError: Server Disconnected\n", "S82", ""),
        (f"{_HEAD}FileNotFoundError: hf://datasets/o/n@29/data/train-0.parquet\n", "S92", "revision="),
        (f"{_HEAD}{_GEMM}", "S32", "DeepGEMM"),
        (_KOHYA, "S89", ""),
        (f"{_HEAD}RuntimeError: Triton Error [CUDA]: invalid argument\n", "S68", "no blocks"),
        (_HELD, "S77", ""),
        (f"{_XLA}*** Check failure stack trace: ***\nAborted (core dumped)\n", "S00", ""),
        ("[crash] Crash detected in pid 23512 thread 20492\n[crash] Crash metadata:\n", "S71", ""),
        ("Error: Remote JSM server is not responding on host batch5\n", "S44", ""),
    ],
)
def test_words_of_other_launchers_are_known(log: str, code: str, says: str) -> None:
    first = diagnose(log).causes[0]
    assert first.code == code
    assert says in f"{first.cause} {first.fix} {first.command}"


@pytest.mark.parametrize(
    "log",
    [
        _OF_RANK + _WAITS + _OF_RANK.replace("step ", "step 1"),
        f"{_PROVISION}I 11-26 17:50:40 Successfully provisioned the cluster.\n{_STEPS}Training finished.\n",
        f"could not restore: on-disk value metadata tree structures do not match, starting anew\n{_STEPS}",
        f"{_ENDED.format(1)}[2026-04-28T08:20:52Z] c4 || INFO: restarting\n{_STEPS}Training finished.\n",
    ],
)
def test_runs_that_continue_behind_such_words_are_well(log: str) -> None:
    assert diagnose(log).causes == ()
