"""Failures in the words of rarer stacks: fabrics, TPU, Trainium, Megatron, Ray Train, streams of shards."""

import pytest

from preflight.diagnosis.diagnose import diagnose

_HEAD = 'Traceback (most recent call last):\n  File "/w/t.py", line 31, in <module>\n    run(x)\n'
_MCORE = "megatron.core.dist_checkpointing.core.CheckpointingException: "
_DIED = "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n\tpid: 64\n"
_V2 = "ray.train.v2.api.exceptions.WorkerGroupError: Training failed due to worker errors:\n"
_NET = "/w/nvshmem_src/src/modules/transport/ibgda/ibgda.cpp:30: non-zero status: 7 create DCT share err.\n"
_GAVE_UP = (
    "[E socket.cpp:9] [c10d] The client socket has timed out after 90s while trying to connect to (n1, 4).\n"
)
_WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:4] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n"
)
_LOST = "n1:1:2 [1] misc/socket.cc:5 NCCL WARN Net : Connection closed by remote peer n2<4>\n"
_INTERNAL = "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:12, internal error, NCCL version 2.14.3\n"
_BEAT = "E c.cc:9] UNAVAILABLE: Task /job:j/task:3 heartbeat timeout. This indicates that the remote task has"
_IMPORT = "n1:1:9 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'\n"
_TPU = f"{_HEAD}RuntimeError: UNKNOWN: TPU initialization failed: Failed to get global TPU topology.\n"
_COMPILES = (
    f"{_HEAD}subprocess.CalledProcessError: Command '['neuronx-cc', 'compile', '-O1']' returned non-zero"
)
_DRIVER = "ERROR 42 [neuronxcc.driver.CommandDriver]:  An Internal Compiler Error has occurred\n"
_MMA = "ERROR : Arch conditional MMA instruction used without targeting a compute capability.\n"
_HTTP = f"{_HEAD}requests.exceptions.HTTPError: 400 Client Error: Bad Request for url: "
_POD = "Warning  FailedScheduling  3m  volcano  0/4 nodes are unavailable: 3 Insufficient nvidia.com/gpu.\n"
_PYXIS = (
    "[2019-09-24T10:10:06.901] [321.0] error: pyxis: couldn't mkdir /run/pyxis/1: No such file or directory\n"
)
_OPTION = f"{_HEAD}RuntimeError: Unexpected optimization option cuda.x, known options are ['a']\n"
_STEPS = "step 1 loss 2.1\nstep 2 loss 2.0\n"
_PIPE = "OSError: (('{} s3://b/1.tar -',), {{'shell': True}}): exit 1 (read) {{'worker_id': 0}}\n"


@pytest.mark.parametrize(
    ("log", "code", "says"),
    [
        (f"Allocating buffer size: 21 MB\n{_NET}", "S67", "NVSHMEM_HCA_LIST"),
        ("x ...\nError in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 29e0df\n", "S67", "NVSHMEM"),
        (_IMPORT, "S56", "IMEX"),
        ("n1:1:9 [0] init.cc:17 NCCL WARN Cuda failure 101 'invalid device ordinal'\n", "S31", ""),
        (_GAVE_UP + _WATCHDOG + _GAVE_UP, "S51", ""),
        (_LOST + _HEAD + _INTERNAL, "S57", ""),
        (_HEAD + _INTERNAL, "S55", ""),
        (f"step 9 loss 1.2\n{_BEAT} failed\nFatal Python error: Aborted\n", "S57", ""),
        ("Fatal Python error: Aborted\n", "S69", ""),
        (_TPU, "S52", "slice"),
        (f"{_HEAD}{_MCORE}Object shard model.x/shard_0_1.pt not found\n", "S88", ""),
        (f"{_HEAD}{_MCORE}Invalid access pattern for ShardedTensor(key='a')\n", "S88", ""),
        (f"{_COMPILES} exit status 70.\n", "S136", "NEURON"),
        (_DRIVER, "S136", ""),
        (f"{_MMA}RuntimeError: CUDA error: unspecified launch failure\n", "S32", ""),
        (_OPTION, "S68", "option"),
        (f"{_DIED}The actor is dead because its node has died. Node Id: 677d\n", "S96", "Ray"),
        (f"{_HEAD}{_DIED}\tthe actor's node was preempted: spot\n{_HEAD}{_V2}", "S96", ""),
        (f"{_HEAD}{_V2}", "S99", ""),
        (f"{_HEAD}{_PIPE.format('aws s3 cp')}", "S82", "webdataset"),
        (f"{_HEAD}{_PIPE.format('cat')}", "S99", ""),
        (f"{_HEAD}fsspec.exceptions.FSTimeoutError\n", "S82", ""),
        (f"{_HEAD}zmq.error.Again: Resource temporarily unavailable\n", "S138", "ZeroMQ"),
        (f"{_HTTP}http://7.1.1.2:15/generate\n", "S138", "refused"),
        (f"{_HTTP}https://a.example.com/x\n", "S82", ""),
        (_POD, "S44", "pod"),
        (_PYXIS, "S111", "enroot"),
    ],
)  # fmt: skip
def test_words_of_rarer_stacks_are_known(log: str, code: str, says: str) -> None:
    cause = diagnose(log).causes[0]
    assert (cause.code, says in f"{cause.cause} {cause.fix}") == (code, True)


@pytest.mark.parametrize(
    "log",
    [
        f"slurmd: [7.0] error: pyxis: ignoring --container-mounts because no image is set\n{_STEPS}",
        f"zmq.error.Again: Resource temporarily unavailable, trying again\n{_STEPS}Training finished.\n",
    ],
)  # fmt: skip
def test_runs_that_continue_behind_such_words_are_well(log: str) -> None:
    assert diagnose(log).verdict == "benign"


def test_a_panic_of_rust_that_python_raises_is_one_cause() -> None:
    panic = "thread '<unnamed>' panicked at src/lib.rs:42:10:\ncalled `Option::unwrap()` on a `None` value\n"
    raised = "pyo3_runtime.PanicException: called `Option::unwrap()` on a `None` value\n"
    assert [len(diagnose(log).causes) for log in (panic, panic + _HEAD + raised)] == [1, 1]
    assert diagnose(panic + _HEAD + raised).causes[0].confidence == "likely"


def test_a_loss_of_reinforcement_may_be_zero() -> None:
    steps = [f"step:{n} - actor/kl_loss:0.0 - response_length/mean:{40 + n}.5\n" for n in range(1, 6)]
    assert diagnose("".join(steps)).verdict == "benign"
    plain = [each.replace("actor/kl_loss", "train_loss") for each in steps]
    assert diagnose("".join(plain)).causes[0].code == "S12"


def test_what_neurons_runtime_says_at_its_end_is_harmless() -> None:
    assert diagnose(f"{_STEPS}nrtucode: internal error: 54 object(s) leaked\n").verdict == "benign"
