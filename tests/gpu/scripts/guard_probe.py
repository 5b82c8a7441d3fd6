"""A training in this process that the guard watches or not: numbers | waits | cost [STEPS]. Says JSON.

The guard is the text that travels to hosts, loaded as rank.py loads it.
"""

import hashlib
import importlib.util
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from launcher.remote.program_source import read_program_source

DEVICE = torch.device("cuda", 0)
REAL = torch.version.cuda is not None
WIDTH, BATCH = (512, 256) if REAL else (32, 16)
LARGE = (4096, 2048) if REAL else (32, 16)  # steps of 10 to 100 ms: as long as those of real trainings
SLEEP_S = 0.3
EVENTS: list[Any] = []


class Switched:
    """The guard, which `on` lets look."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "guard.py"
        path.write_bytes(read_program_source("guard"))
        spec = importlib.util.spec_from_file_location("_gpulaunch_guard", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        services = module.RankServices(self.note, lambda _: None, lambda _: "")
        self.guard = module.Guard(module.GuardContext(0, 0, self.folder.name), services, stops=False)
        self.on = False
        active = self.guard.safety.is_active
        self.guard.safety.is_active = lambda: self.on and active()
        self.guard.install(torch)

    @staticmethod
    def note(*event: object, **fields: object) -> None:
        if fields.get("stops") or "internal_error" in event or fields.get("code"):
            EVENTS.append([*map(str, event), {key: str(value)[:300] for key, value in fields.items()}])


class Training:
    """A small model, its optimizer, and a step."""

    def __init__(self, kind: str = "float32", width: int = WIDTH, batch: int = BATCH) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)]
        more = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Linear(width, 1)]
        self.model = torch.nn.Sequential(*layers, *more).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(batch, width).to(DEVICE)
        self.targets = torch.randn(batch, 1).to(DEVICE)
        self.half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(kind.split(maxsplit=1)[0])
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0) if "scaler" in kind else None

    def step(self) -> Any:
        self.optimizer.zero_grad()
        with torch.autocast("cuda", self.half or torch.bfloat16, enabled=self.half is not None):
            loss = torch.nn.functional.mse_loss(self.model(self.inputs).float(), self.targets)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss.detach()

    def digest(self) -> str:
        whole = hashlib.sha256()
        for p in self.model.parameters():
            whole.update(p.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return whole.hexdigest()[:16]


def numbers(guard: Switched) -> dict[str, Any]:
    torch.use_deterministic_algorithms(True)
    found = {}
    for kind in ("float32", "bfloat16 autocast", "float16 autocast and scaler"):
        digests = []
        for guard.on in (True, False):
            training = Training(kind)
            losses = [training.step() for _ in range(30)]
            digests.append(f"{training.digest()} {torch.stack(losses).sum().item():.17g}")
        found[kind] = digests
    guard.on = False
    return found


def waits(guard: Switched) -> dict[str, Any]:
    warm = Training()
    for _ in range(5):
        warm.step()
    return {"warned": warned(guard), "calls": calls(guard), "running": running(guard)}


def warned(guard: Switched) -> dict[str, list[int]]:
    """Return per way the steps in which torch called something that waits for the GPU."""
    found = {}
    for name, guard.on in (("plain", False), ("guard", True)):
        training, steps = Training(), []
        torch.cuda.set_sync_debug_mode("warn")
        for step in range(1, 31):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                training.step()
            if any("synchroniz" in str(each.message) for each in heard):
                steps.append(step)
        torch.cuda.set_sync_debug_mode("default")
        found[name] = steps
    guard.on = False
    return found


def calls(guard: Switched) -> dict[str, Any]:
    """Return how often the CUDA runtime waited, allocated on the host and copied, by the profiler."""
    found: dict[str, Any] = {"plain": {}, "guard": {}, "error": ""}
    if not REAL:
        return found
    kinds = torch.profiler.ProfilerActivity
    wanted = ("Synchronize", "HostAlloc", "MemcpyAsync", "EventQuery", "LaunchKernel")
    try:
        for name, guard.on in (("plain", False), ("guard", True)):
            training = Training()
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as seen:
                for _ in range(30):
                    training.step()
            counted = {each.key: each.count for each in seen.key_averages()}
            found[name] = {
                k: n for k, n in counted.items() if k.startswith("cuda") and any(w in k for w in wanted)
            }
    except Exception as error:  # noqa: BLE001 - whatever the profiler lacks on this machine is the answer
        found["error"] = f"the profiler fails: {' '.join(str(error).split())[:200]}"
    guard.on = False
    if not found["error"] and not found["plain"]:
        found["error"] = "the profiler sees no call of the CUDA runtime"
    return found


def running(guard: Switched) -> dict[int, Any]:
    """Return, for steps that the guard samples, whether they return while the GPU has not even begun them."""
    found = {}
    guard.on = True
    training = Training()
    for step in range(1, 26):
        if step not in (1, 2, 3, 25):
            training.step()
            continue
        torch.cuda.synchronize()
        cycles = int(SLEEP_S * 1.5e9)
        torch.cuda._sleep(cycles)
        slept = torch.cuda.Event() if REAL else None
        if slept is not None:
            slept.record()
        start = time.perf_counter()
        training.step()
        took = time.perf_counter() - start
        found[step] = {"host_ms": 1000 * took, "running": bool(slept is not None and not slept.query())}
        torch.cuda.synchronize()
    guard.on = False
    return found


def cost(guard: Switched, steps: int) -> dict[str, float]:
    inside = Meter(guard)
    training, block = Training("float32", *LARGE), 10
    guard.on = True
    for _ in range(2 * block):
        training.step()
    torch.cuda.synchronize()
    inside.spent = 0.0
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(steps // block):
        guard.on = turn % 2 == 0
        start = time.perf_counter()
        for _ in range(block):
            training.step()
        torch.cuda.synchronize()
        took[guard.on].append((time.perf_counter() - start) / block)
    guard.on = False
    plain, watched = (1000 * statistics.median(took[on]) for on in (False, True))
    return {
        "step without guard, ms": plain,
        "step with guard, ms": watched,
        "CPU time inside the guard per step, ms": 1000 * inside.spent / (steps / 2),
        "side by side, percent": 100 * (watched / plain - 1),
    }


class Meter:
    """Adds up the CPU time in the guard's entries."""

    def __init__(self, guard: Switched) -> None:
        self.spent, self.depth = 0.0, 0
        original = guard.guard.safety.call

        def timed(*words: Any) -> Any:
            self.depth += 1
            start = time.process_time()
            try:
                return original(*words)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.spent += time.process_time() - start

        guard.guard.safety.call = timed


def main() -> None:
    torch.cuda.set_device(DEVICE)
    guard = Switched()
    what = sys.argv[1]
    if what == "cost":
        found: dict[str, Any] = {"cost": cost(guard, int(sys.argv[2]))}
    else:
        found = (numbers if what == "numbers" else waits)(guard)
    print(json.dumps({**found, "events": EVENTS}))


if __name__ == "__main__":
    main()
