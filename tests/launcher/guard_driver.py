"""Runs guarded trainings in forks of one process, so that torch is imported once. Prints one JSON document.

A scenario is a function that trains; it returns what it computed. Its guard's policy is in its defaults.
"""

import copy
import hashlib
import importlib.util
import io
import json
import os
import pickle
import sys
import tempfile
import types
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles
from accelerate import Accelerator
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.optim import ZeroRedundancyOptimizer

Scenario = Callable[["Kit"], Any]


class Kit:
    """What a scenario gets: the guard, and the modules that it is made of."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard

    def module(self, name: str) -> Any:
        """Return one of the guard's modules as it was imported from what travels to hosts."""
        return sys.modules[f"gpulaunch_guard.{name}"]


def net(*, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(dtype)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(32, 8)
    return x, x.sum(1, keepdim=True)


def mse(model: torch.nn.Module) -> torch.Tensor:
    x, y = batch()
    out = model(x.to(next(model.parameters()).dtype))
    return torch.nn.functional.mse_loss(out.float(), y)


def train(
    model: torch.nn.Module, optimizer: Any, steps: int, each: Callable[[int], None] | None = None
) -> Any:
    losses = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = mse(model)
        loss.backward()
        if each:
            each(step)
        optimizer.step()
        losses.append(loss.item())
    return [*losses, digest(model)]


def digest(model: torch.nn.Module) -> str:
    """The weights, bit for bit."""
    whole = hashlib.sha256()
    for p in model.parameters():
        own = p.to_local() if hasattr(p, "to_local") else p  # a rank's own shard
        whole.update(own.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def many_kinds(kit: Kit) -> Any:
    """Everything a script may do with optimizers; the numbers must not depend on the guard."""
    found: dict[str, Any] = {}
    for name, make in {
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
        "fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
        "foreach": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=True),
        "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
        "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    }.items():
        model = net()
        clip = lambda _, m=model: torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)  # noqa: E731
        found[name] = train(model, make(model.parameters()), 30, clip)  # type: ignore[no-untyped-call]
    model = net()
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = mse(model)
        loss.backward()
        return loss

    found["lbfgs"] = [*(float(lbfgs.step(closure)) for _ in range(4)), digest(model)]
    found["accumulated"] = accumulated()
    found["scaled"] = scaled(fused=False)
    found["scaled and fused"] = scaled(fused=True)
    found["two optimizers"] = two_optimizers()
    compiled = torch.compile(net(), backend="eager")
    found["compiled"] = train(compiled, torch.optim.AdamW(compiled.parameters(), lr=1e-2), 5)
    found["compiled step"] = compiled_step()
    found["schedule-free"] = schedule_free()
    model = net()
    found["no torch optimizer"] = train(model, Ducktyped(model), 5)
    found["stepped in backward"] = stepped_in_backward()
    found["accelerate skips"] = accelerate_skips()
    found["random"] = torch.rand(1).item()
    return found


def compiled_step() -> Any:
    """The optimizer's own step is compiled; hooks are no part of its graph."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer.step = torch.compile(optimizer.step, backend="eager")
    return train(model, optimizer, 3)


class ScheduleFree(torch.optim.Optimizer):  # type: ignore[misc]
    """Somebody else's subclass, whose parameters stand at another point while it evaluates."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999), "steps": 0})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["steps"] += 1
            for p in group["params"]:
                z = self.state[p].setdefault("z", p.clone())
                z.sub_(p.grad, alpha=group["lr"])
                p.lerp_(z, 1 / group["steps"])


def schedule_free() -> Any:
    model = net()
    return train(model, ScheduleFree(model.parameters(), lr=1e-2), 5)


class Ducktyped:
    """What is called like an optimizer and is none of torch's."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.params = list(model.parameters())

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for p in self.params:
                p.sub_(p.grad, alpha=1e-2)


def stepped_in_backward() -> Any:
    """One optimizer per parameter, stepped while gradients are made: no gradient outlives its step."""
    model = net()
    own = {p: torch.optim.Adam([p], lr=1e-2) for p in model.parameters()}

    def step(p: Any) -> None:
        own[p].step()
        own[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    losses = []
    for _ in range(5):
        loss = mse(model)
        loss.backward()
        losses.append(loss.item())
    return [*losses, digest(model)]


def accelerate_skips() -> Any:
    """accelerate's optimizer asks its own step whether the scaler has skipped it."""
    accelerator = Accelerator(cpu=True)
    accelerator.scaler = torch.amp.GradScaler("cpu")
    model = net()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    skipped = []
    for step in range(6):
        loss = mse(model) * (float("inf") if step in (2, 3) else 1.0)
        accelerator.backward(loss)
        optimizer.step()
        skipped.append(accelerator.optimizer_step_was_skipped)
        optimizer.zero_grad()
    return [skipped, digest(model)]


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
    dist.destroy_process_group()
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


def train_plain(model: Any, optimizer: Any, clip: Callable[[], Any]) -> Any:
    x, y = batch()
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        clip()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, digest(model)]


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


def dtype_raises(kit: Kit) -> Any:
    """A parameter that will not say its dtype, to the guard."""

    class Shy(torch.nn.Parameter):  # type: ignore[misc]
        @property
        def dtype(self) -> Any:
            if sys._getframe(1).f_code.co_filename.startswith("gpulaunch_guard/"):
                raise RuntimeError("none of your business")
            return super().dtype

    model = net()
    model[0].weight = Shy(model[0].weight.detach())
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), 5)


def dtype_said(kit: Kit) -> Any:
    model = net()
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), 5)


def accumulated() -> Any:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        for _ in range(4):
            loss = mse(model) / 4
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
    return [*losses, digest(model)]


def scaled(*, fused: bool, spoil: int = 0, steps: int = 12) -> Any:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = mse(model)
        factor = float("inf") if spoil and step >= spoil else 1.0
        scaler.scale(loss * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return [*losses, digest(model)]


def two_optimizers() -> Any:
    one, two = net(), net()
    first, second = torch.optim.Adam(one.parameters()), torch.optim.Adam(two.parameters())
    losses = []
    for step in range(6):
        for model, optimizer, every in ((one, first, 1), (two, second, 3)):
            if step % every == 0:
                optimizer.zero_grad()
                loss = mse(model)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    return [*losses, digest(one), digest(two)]


def broken_guard(kit: Kit) -> Any:
    """Every look of the guard raises."""
    guard = kit.guard

    def boom(*_: Any) -> None:
        raise RuntimeError("a bug in the guard")

    guard.rows = tuple(row._replace(look=boom) for row in guard.rows)
    for look in (guard.notes, guard.values, guard.scaling):
        for name in (
            name for name in dir(look) if not name.startswith("_") and callable(getattr(look, name))
        ):
            setattr(look, name, boom)
    return many_kinds(kit)


def half_under_a_scaler(kit: Kit, *, fused: bool = False) -> Any:
    model = net(dtype=torch.float16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        scaler.scale(mse(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    return "trained on"


def half_and_fused(kit: Kit) -> Any:
    return half_under_a_scaler(kit, fused=True)


def sharded_scaler(kit: Kit) -> Any:
    class ShardedGradScaler(torch.amp.GradScaler):  # type: ignore[misc]
        def _unscale_grads_(self, *args: Any) -> Any:
            return super()._unscale_grads_(*args[:3], True)  # as FSDP's does

    model = net(dtype=torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = ShardedGradScaler("cpu")
    scaler.scale(mse(model)).backward()
    scaler.step(optimizer)
    scaler.update()
    return "trained on"


def pure_half_sgd(kit: Kit) -> Any:
    model = net(dtype=torch.float16)
    return train(model, torch.optim.SGD(model.parameters(), lr=1e-3), 3)


def pure_half_rmsprop(kit: Kit) -> Any:
    model = net(dtype=torch.float16)
    return train(model, torch.optim.RMSprop(model.parameters(), lr=1e-3), 3)


def pure_half_radam(kit: Kit) -> Any:
    model = net(dtype=torch.float16)
    return train(model, torch.optim.RAdam(model.parameters(), lr=1e-3), 3)


def pure_half_adam(kit: Kit) -> Any:
    model = net(dtype=torch.float16)
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 3)


def pure_bf16(kit: Kit) -> Any:
    model = net(dtype=torch.bfloat16)
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 5)


def weights_spoiled_at_30(kit: Kit) -> Any:
    model = net()

    def spoil(step: int) -> None:
        if step == 30:
            with torch.no_grad():
                model[0].weight[0, 0] = float("nan")

    return train(model, torch.optim.SGD(model.parameters(), lr=1e-3), 60, spoil)


def read_late(kit: Kit) -> Any:
    """As on a GPU: what is computed arrives some steps later, and nobody waits for it."""
    waits: list[int] = []

    class Slow:
        def __init__(self) -> None:
            self.asked = 0

        def query(self) -> bool:
            self.asked += 1
            waits.append(self.asked)
            return self.asked > 3

        def synchronize(self) -> None:
            raise AssertionError("the guard waited")

    class Late(kit.module("async_reads").Reading):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.events = [Slow()]

    kit.module("checks.non_finite").Reading = Late
    kit.guard.notes.take_backward = lambda _: None  # a loss on a GPU is not read at once either
    try:
        return weights_spoiled_at_30(kit)
    finally:
        kit.guard.training.tools.report("waits", most=max(waits))


def never_finite(kit: Kit) -> Any:
    """A mask of -inf among the parameters, which no step changes."""
    model = net()
    model.mask = torch.nn.Parameter(torch.full((4,), float("-inf")))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def touch(_: int) -> None:
        model.mask.grad = torch.zeros(4)

    return train(model, optimizer, 30, touch)


def frozen_after_nan_once(kit: Kit) -> Any:
    """A script that skips a step with a bad gradient by itself is left alone."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(10):
        optimizer.zero_grad()
        (mse(model) * (float("nan") if step == 5 else 1.0)).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
    return "trained on"


def always_overflows(kit: Kit) -> Any:
    return scaled(fused=False, spoil=3, steps=40)


def always_overflows_fused(kit: Kit) -> Any:
    return scaled(fused=True, spoil=3, steps=40)


def dead_adapters(kit: Kit) -> Any:
    model = net()
    model.lora_A = torch.nn.Parameter(torch.zeros(4, 4))
    model.lora_B = torch.nn.Parameter(torch.zeros(4, 4))
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 5)


def one_unused(kit: Kit) -> Any:
    model = net()
    model.unused = torch.nn.Parameter(torch.zeros(4))
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 5)


def cast_with_fused_adam(kit: Kit) -> Any:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    train(model, optimizer, 2)
    model.to(torch.bfloat16)
    try:
        return train(model, optimizer, 1)
    except RuntimeError as error:
        return str(error)


def caught(kit: Kit) -> Any:
    """A script that catches everything does not train on."""
    model = net(dtype=torch.float16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(5):
        try:
            train(model, optimizer, 1)
        except BaseException:  # noqa: BLE001 - what such scripts do
            continue
    return "trained on"


def in_a_worker(kit: Kit) -> Any:
    """What a forked child does is not the rank's."""
    pid = os.fork()
    if pid == 0:
        model = net(dtype=torch.float16)
        train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 4)
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pickled(kit: Kit) -> Any:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, 2)
    scaler = pickle.loads(pickle.dumps(torch.amp.GradScaler("cpu")))
    pickle.dumps(torch.nn.utils.clip_grad_norm_)
    torch.save(optimizer.state_dict(), io.BytesIO())
    again = copy.deepcopy(optimizer)
    pickle.loads(pickle.dumps(optimizer))
    return [type(scaler).__name__, len(again.param_groups)]


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
    guard.teller.stops = False
    training.fired = 1
    seen = training.record(optimizer)
    seen.tries = seen.fired = 1
    step = kit.module("training_state").Step(training, optimizer, seen, False)
    for row in guard.rows:
        if row.what == "judge dtypes":
            for wrong in row.look(step):
                guard.teller.tell(wrong, 1)
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


SCENARIOS: tuple[Scenario, ...] = (
    many_kinds,
    in_two_ranks,
    spoiled_shard,
    dtype_raises,
    dtype_said,
    broken_guard,
    half_under_a_scaler,
    half_and_fused,
    sharded_scaler,
    pure_half_sgd,
    pure_half_rmsprop,
    pure_half_radam,
    pure_half_adam,
    pure_bf16,
    weights_spoiled_at_30,
    read_late,
    never_finite,
    frozen_after_nan_once,
    always_overflows,
    always_overflows_fused,
    dead_adapters,
    one_unused,
    cast_with_fused_adam,
    caught,
    in_a_worker,
    pickled,
    fake_gpus,
    beside_a_like_rank,
    beside_an_unlike_rank,
    beside_a_rank_on_the_same_gpu,
)


WARNED_TOO = (pure_half_sgd, pure_half_rmsprop, pure_half_radam, pure_half_adam, cast_with_fused_adam)


def run_one(scenario: Scenario, guard_file: str, policy: str) -> dict[str, Any]:
    """Run a scenario in a fork; return its exit code, what the guard told, what it computed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        out = os.fdopen(write, "w", buffering=1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = 99
        try:
            out.write(json.dumps({"value": child(scenario, guard_file, policy, out)}) + "\n")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 98
        except BaseException as error:  # noqa: BLE001 - told to the test
            out.write(json.dumps({"error": repr(error)}) + "\n")
        finally:
            out.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = [json.loads(line) for line in pipe]
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    events = [line for line in lines if "event" in line]
    value: dict[str, Any] = next((line for line in lines if "event" not in line), {})
    return {"code": code, "events": events, **value}


def child(scenario: Scenario, guard_file: str, policy: str, out: Any) -> Any:
    spec = importlib.util.spec_from_file_location("_gpulaunch_guard", guard_file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_gpulaunch_guard"] = module
    spec.loader.exec_module(module)

    def report(event: str, **fields: object) -> None:
        out.write(json.dumps({"event": event, **fields}, default=str) + "\n")

    tools = module.Tools(report, lambda _: None, lambda _: "")
    guard = module.Guard(module.Place(0, 0, tempfile.mkdtemp()), tools, stops=policy == "stop")
    if policy != "off":
        guard.install(torch)
    return scenario(Kit(guard))


def main() -> None:
    torch.set_num_threads(1)
    guard_file, wanted = sys.argv[1], sys.argv[2:]
    found: dict[str, Any] = {}
    for scenario in SCENARIOS:
        name = scenario.__name__
        if wanted and name not in wanted:
            continue
        found[name] = run_one(scenario, guard_file, "stop")
        if scenario in (many_kinds, in_two_ranks):
            found[f"{name}, unguarded"] = run_one(scenario, guard_file, "off")
        if scenario in WARNED_TOO:
            found[f"{name} with warn"] = run_one(scenario, guard_file, "warn")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
