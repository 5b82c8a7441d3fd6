"""Trainings in two ranks or beside another one, and what a forked child of a rank does."""

import json
import os
import tempfile
import types
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from tests.launcher.guard_trainings.dtypes import dtype_said
from tests.launcher.guard_trainings.kit import Kit, digest, mse, net, train, train_plain


def in_two_ranks(kit: Kit) -> Any:
    """DDP with no_sync and bucket views, a sharded optimizer, FSDP1 and FSDP2; both ranks are guarded."""
    store = tempfile.mkdtemp()
    read, write = os.pipe()
    other = os.fork()
    rank = int(other == 0)
    kit.guard.safety.pid = os.getpid()
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{store}/store", rank=rank, world_size=2)
    found = {kind.__name__: kind() for kind in (no_sync, sharded_state, fsdp1, fsdp2, fsdp2_in_bf16)}
    # Both end by _exit, with the group. The threads of a destroyed one are joined by whatever drops its last
    # reference, and that holds the interpreter which one of them may still want.
    dist.barrier()
    if rank:
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(other, 0)[1] == 0
    with os.fdopen(read) as pipe:
        return [found, json.loads(pipe.read())]


def no_sync() -> Any:
    model = torch.nn.parallel.DistributedDataParallel(net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(4):
        with model.no_sync():
            (mse(model) / 2).backward()
        (mse(model) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    return digest(model)


def sharded_state() -> Any:
    model = torch.nn.parallel.DistributedDataParallel(net())
    return train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2), 3)


def fsdp1() -> Any:
    precision = MixedPrecision(param_dtype=torch.bfloat16)
    model = FullyShardedDataParallel(
        net(), device_id=torch.device("cpu"), use_orig_params=True, mixed_precision=precision
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return train_plain(model, optimizer, lambda: model.clip_grad_norm_(0.5))


def fsdp2(policy: Any = None) -> Any:
    model = net()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)), mp_policy=MixedPrecisionPolicy(param_dtype=policy))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    clip = lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # noqa: E731
    return train_plain(model, optimizer, clip)


def fsdp2_in_bf16() -> Any:
    return fsdp2(torch.bfloat16)


def spoiled_shard(kit: Kit) -> Any:
    """NaN in one rank's shard: that rank finds and names it alone, the other takes no part."""
    store = tempfile.mkdtemp()
    other = os.fork()
    rank = int(other == 0)
    kit.guard.safety.pid = os.getpid()
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}/store", rank=rank, world_size=2)
    model = net()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train_plain(model, optimizer, lambda: None)
    if rank == 0:
        return os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
    with torch.no_grad():
        for p in model.parameters():
            p.to_local().fill_(float("nan"))
    try:
        for _ in range(25):  # up to the next step that is sampled
            optimizer.step()
    except SystemExit as end:
        os._exit(end.code)  # type: ignore[arg-type]
    os._exit(0)


def rehearsed_on_gloo(kit: Kit) -> Any:
    """The end of a rehearsal whose ranks meet on gloo."""
    store = tempfile.mkdtemp()
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}/store", rank=0, world_size=1)
    kit.guard.leaving.code = 0
    kit.guard.leaving.clean_exit()
    return torch.distributed.is_initialized()


def in_a_worker(kit: Kit) -> Any:
    """What a forked child does is not the rank's."""
    pid = os.fork()
    if pid == 0:
        model = net(dtype=torch.float16)
        train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 4)
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fake_gpus(kit: Kit) -> Any:
    """A rank that was given GPU-1 and trains bf16 on GPU-0 of a TITAN RTX; no CUDA is needed to say so."""
    device = torch.device("cuda:0")
    p = types.SimpleNamespace(device=device, dtype=torch.bfloat16, requires_grad=True, grad=None)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    optimizer.param_groups[0]["params"] = [p]
    torch.cuda.get_device_capability = lambda *_: (7, 5)
    guard, training = kit.guard, kit.guard.training
    with open(f"{training.place.run_dir}/expected.json", "w") as file:  # noqa: PTH123
        json.dump({"gpus": ["GPU-1"]}, file)
    training.tools = training.tools._replace(gpu_uuid=lambda _: "GPU-0")
    guard.reporter.stops = False
    training.fired = 1
    seen = training.record(optimizer)
    seen.tries = seen.fired = 1
    step = kit.module("training_state").Step(training, optimizer, seen, False)
    for row in guard.rows:
        if row.what == "judge dtypes":
            for wrong in row.look(step):
                guard.reporter.report(wrong, 1)
    return "told"


def beside(kit: Kit, **facts: Any) -> None:
    """Let a rank of the same host have told its first step before."""
    run_dir = tempfile.mkdtemp()
    event = {"event": "guard_facts", "rank": 1, "mixed_precision": None, "scaler": False, "gpu": "", **facts}
    with open(f"{run_dir}/events.jsonl", "w") as file:  # noqa: PTH123
        file.write(json.dumps({"event": "rank", "rank": 0}) + "\n" + json.dumps(event) + "\n")
    training = kit.guard.training
    training.place = training.place._replace(run_dir=run_dir)


def beside_a_like_rank(kit: Kit) -> Any:
    beside(kit, dtypes={"float32": 9})
    return dtype_said(kit)


def beside_an_unlike_rank(kit: Kit) -> Any:
    beside(kit, dtypes={"bfloat16": 4})
    return dtype_said(kit)


def beside_a_rank_on_the_same_gpu(kit: Kit) -> Any:
    beside(kit, dtypes={"bfloat16": 1}, gpu="GPU-0")
    return fake_gpus(kit)
