"""Runs guarded trainings in forks of one process, so that torch is imported once. Prints one JSON document.

A scenario is a function that trains; it returns what it computed. Its guard's policy is in its defaults.
"""

import gc
import importlib.util
import json
import os
import sys
import tempfile
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles
import torch._inductor.cudagraph_trees

from tests.launcher.guard_trainings.dtypes import (
    cast_with_fused_adam,
    caught,
    dtype_raises,
    dtype_said,
    half_and_fused,
    half_under_a_scaler,
    pure_bf16,
    pure_half_adam,
    pure_half_radam,
    pure_half_rmsprop,
    pure_half_sgd,
    sharded_scaler,
)
from tests.launcher.guard_trainings.kit import Kit, Scenario, batch, net
from tests.launcher.guard_trainings.optimizers import broken_guard, many_kinds, pickled
from tests.launcher.guard_trainings.ranks import (
    beside_a_like_rank,
    beside_a_rank_on_the_same_gpu,
    beside_an_unlike_rank,
    fake_gpus,
    in_a_worker,
    in_two_ranks,
    rehearsed_on_gloo,
    spoiled_shard,
)
from tests.launcher.guard_trainings.values import (
    always_overflows,
    always_overflows_fused,
    dead_adapters,
    frozen_after_nan_once,
    never_finite,
    one_unused,
    read_late,
    weights_spoiled_at_30,
)

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
    rehearsed_on_gloo,
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

    tools = module.RankServices(report, lambda _: None, lambda _: "")
    guard = module.Guard(module.GuardContext(0, 0, tempfile.mkdtemp()), tools, stops=policy == "stop")
    if policy != "off":
        guard.install(torch)
    kit = Kit(guard)
    kit.module("sampling_policy")._BURST_S = 60.0  # so that a busy machine looks at the same steps
    return scenario(kit)


def main() -> None:
    torch.compile(net(), backend="eager")(batch()[0])  # for what it imports: not again in every fork
    guard_file, wanted = sys.argv[1], sys.argv[2:]
    gc.freeze()  # a fork that visits what was imported copies all of it
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
