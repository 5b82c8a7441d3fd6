"""Stacks of ranks as faulthandler writes them."""

from preflight.diagnosis.stack_analysis import RankStack, read_stacks

LIB = "/env/lib/python3.11/site-packages/torch"
RUN = "/home/ada/.local/state/gpulaunch/runs/box-7ae7b002/r1"
SHIM = f"""  File "{RUN}/rank.py", line 365 in run
  File "{RUN}/rank.py", line 504 in <module>
"""


def by_faulthandler(rank: int, frames: str, state: str = "S in futex_do_wait") -> str:
    return f"""=== rank {rank}, pid 4{rank}, state {state}, faulthandler, 2026-11-21 20:48:40
Thread 0x00007f47aaaaa6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "{LIB}/utils/data/_utils/pin_memory.py", line 41 in do_one_step

Current thread 0x00007f47f9c3eb80 (most recent call first):
{frames}{SHIM}

=== a child of rank {rank}, pid 9{rank}, state S, faulthandler, 2026-11-21 20:48:41
Current thread 0x00007f47f9c3eb80 (most recent call first):
  File "{LIB}/utils/data/_utils/worker.py", line 275 in _worker_loop

"""


def frame(file: str, line: int, function: str) -> str:
    return f'  File "{file}", line {line} in {function}\n'


REDUCES = (
    frame(f"{LIB}/distributed/distributed_c10d.py", 3252, "all_reduce")
    + frame(f"{LIB}/distributed/c10d_logger.py", 83, "wrapper")
    + frame("/home/ada/train.py", 41, "step")
    + frame("/home/ada/train.py", 60, "<module>")
)
BROADCASTS = REDUCES.replace("all_reduce", "broadcast")
BACKWARD = (
    frame(f"{LIB}/autograd/graph.py", 829, "_engine_run_backward")
    + frame(f"{LIB}/_tensor.py", 648, "backward")
    + frame("/env/lib/python3.11/site-packages/accelerate/accelerator.py", 2578, "backward")
    + frame("/home/ada/train.py", 44, "step")
)
LOADS = (
    frame("/usr/lib/python3.11/selectors.py", 415, "select")
    + frame(f"{LIB}/utils/data/dataloader.py", 1423, "_get_data")
    + frame("/home/ada/train.py", 58, "epoch")
)
SAVES = frame("/home/ada/train.py", 71, "save")
WRAPPED = frame(f"{LIB}/distributed/fsdp/fully_sharded_data_parallel.py", 854, "forward") + frame(
    "/home/ada/train.py", 40, "step"
)


def standing(rank: int, frames: str, **more: str) -> RankStack:
    found = read_stacks(by_faulthandler(rank, frames, **more), "a")
    assert found is not None
    return found
