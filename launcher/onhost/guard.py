"""The guard: inside each rank it watches dtypes, devices and values, and stops what cannot train.

It lies beside rank.py, which loads it when GPULAUNCH_GUARD is `stop` or `warn`. It imports nothing heavy: it
waits until the script has imported torch, then listens through torch's global optimizer hooks, GradScaler,
clip_grad_norm_ and Tensor.backward. It never uses a collective, never changes a value, and on a GPU never
waits for one outside a rehearsal: what it computed is read when it is ready. A failure of its own is told
once and switches that look off; it never reaches the script.

G1 dtypes of trainable parameters   G2 gradient dtype       G3 optimizer state dtype   G4 non-finite values
G5 GradScaler                       G6 device as planned    G7 alike across ranks (the client compares)
G8 bf16 on a GPU without it         G9 trainable parameters that get no gradient

Environment: GPULAUNCH_GUARD=stop|warn, GPULAUNCH_GUARD_SKIPS=N (8), GPULAUNCH_REHEARSE=N (steps).
A stop ends the rank with exit code 86. `guard.py clean` in a run directory removes a rehearsal's scratch.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import sys
import time
from types import ModuleType
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

STOP_EXIT = 86
FIRST_SAMPLES = 3
SAMPLE_EVERY = 25
SKIPS_IN_A_ROW = 8
NAMES_TOLD = 8
TIMES_TOLD = 1
COUNT_EVERY_S = 1.0
EPS_LOST_IN_FP16 = 2.0**-25
"""An eps up to this rounds to zero in fp16: Adam then divides by zero wherever its second moment did too."""
DIVIDE_BY_EPS = ("Adam", "AdamW", "NAdam", "RMSprop")
"""Optimizers of torch whose first step is x/0 then; what the others do is told when it is seen (G4)."""
SCRATCH = ".gpulaunch-rehearsal"

Report = Callable[..., None]
AfterImport = Callable[["dict[str, Callable[[ModuleType], None]]"], None]

FIX_FP16 = (
    "load the trainable parameters in float32 (dtype=torch.float32, `torch_dtype=` before transformers 4.56)"
    " and keep the mixed precision; too big for that: PEFT/LoRA, whose adapters stay float32; GPUs of compute"
    " capability 8.0 and up: load and train in bf16"
)
FIX_CAST = (
    "do not cast the module while it trains: cast the inputs, or use autocast; look at what evaluation, demo"
    " or generation code does with .to(dtype), .half() or .bfloat16() just before this step"
)


class Place(NamedTuple):
    """Which rank this is, and what the plan gave it."""

    rank: int
    local_rank: int
    run_dir: str


class Tools(NamedTuple):
    """What rank.py lends: its events, its import hook, and how it reads a GPU's UUID."""

    report: Report
    after_import: AfterImport
    gpu_uuid: Callable[[Any], str]


class Wrong(NamedTuple):
    """Something the guard has seen. `stops`: nothing good can come of going on."""

    code: str
    message: str
    fix: str
    stops: bool = False
    parameters: Any = ()  # the tensors


class Watched:
    """One optimizer: how often it has stepped, and what was seen of it."""

    def __init__(self, optimizer: Any) -> None:
        name = type(optimizer)
        self.tries = 0  # performed or skipped by a scaler
        self.skips = 0
        self.fired = 0  # steps that were performed
        torchs = name.__module__.startswith("torch.optim") and hasattr(optimizer, "defaults")
        self.is_adam = torchs and "betas" in optimizer.defaults
        self.divides_by_eps = torchs and name.__name__ in DIVIDE_BY_EPS
        self.last_good = 0  # the last step after which the weights were seen finite
        self.without_gradient: set[int] | None = None


class Reading:
    """One number per device on its way to the CPU; on a GPU read when it has arrived, without waiting."""

    def __init__(self, torch: Any, step: int, values: List[Any]) -> None:
        self.step = step
        self.values = values
        self.events: List[Any] = []
        self.arrived: List[Any] = []
        for value in values:
            if value.device.type == "cuda":
                host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                with torch.cuda.device(value.device):
                    host.copy_(value, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record()
                self.events.append(event)
                self.arrived.append(host)
            else:
                self.arrived.append(value.cpu())

    def is_ready(self) -> bool:
        """Return whether every copy has arrived; never waits."""
        return all(event.query() for event in self.events)

    def numbers(self) -> List[float]:
        """Return all numbers."""
        return [float(number) for value in self.arrived for number in value.reshape(-1).tolist()]


class Guard:
    """Everything the guard knows of this rank."""

    def __init__(self, place: Place, tools: Tools, *, stops: bool, steps: int = 0) -> None:
        self.place = place
        self.tools = tools
        self.stops = stops
        self.pid = os.getpid()
        self.skips_allowed = int(os.environ.get("GPULAUNCH_GUARD_SKIPS", "") or SKIPS_IN_A_ROW)
        self.torch: Any = None
        self.leaving: Optional[int] = None
        self.off: set[str] = set()
        self.said: dict[str, int] = {}
        self.watched: Any = None  # WeakKeyDictionary once weakref-able optimizers exist
        self.fired = 0
        self.scalers = False  # whether an enabled GradScaler is in use
        self.scaled = False
        self.scale = math.nan
        self.scale_reading: Optional[Reading] = None
        self.skips_in_a_row = 0
        self.suspicious = False
        self.born_bad: set[int] = set()  # weights that were not finite before any step: masks, unused rows
        self.pending: List[tuple[str, Reading, Any]] = []
        self.noted: dict[str, List[tuple[int, Any]]] = {"loss": [], "gradient norm": []}
        self.bad: dict[str, int] = {}  # what was non-finite -> first step
        self.rehearsal = Rehearsal(self, steps) if steps else None
        self.steps_fd = -1
        self.counted_at = 0.0

    # --- installing ---

    def install(self, torch: Any) -> None:
        """Listen to torch; called right after the script's `import torch`."""
        import weakref

        self.torch = torch
        self.watched = weakref.WeakKeyDictionary()
        optim = sys.modules["torch.optim.optimizer"]  # the attribute of that name is gone
        unseen = getattr(torch, "_disable_dynamo", lambda function: function)  # hooks are no part of a graph

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:  # no bound methods: torch sets attributes
            self._pre_hook(optimizer, args, kwargs)

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            del args, kwargs
            self._post_hook(optimizer)

        optim.register_optimizer_step_pre_hook(unseen(before))
        optim.register_optimizer_step_post_hook(unseen(after))
        for what, wrap_it in (
            ("watch GradScaler", self._wrap_scaler),
            ("watch clip_grad_norm_", self._wrap_clip),
            ("watch backward", self._wrap_backward),
        ):
            self.safely(what, wrap_it, torch)
        atexit.register(self._at_exit)

    def _wrap_scaler(self, torch: Any) -> None:
        module = getattr(getattr(torch, "amp", None), "grad_scaler", None)
        scaler = getattr(module, "GradScaler", None) or torch.cuda.amp.GradScaler
        guard = self

        def before_unscale(args: Any, kwargs: Any) -> None:
            optimizer = args[1] if len(args) > 1 else kwargs["optimizer"]
            guard._look_at_scaled(args[0], optimizer)

        wrap(scaler, "_unscale_grads_", self, before=before_unscale)
        step = scaler.step

        def stepped(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not guard.is_active() or not getattr(scaler, "_enabled", False):
                return step(scaler, optimizer, *args, **kwargs)
            guard.scalers = True
            before = guard.fired
            result = step(scaler, optimizer, *args, **kwargs)
            guard.safely("count skipped steps", guard._scaler_stepped, optimizer, guard.fired == before)
            return result

        scaler.step = copy_name(stepped, step)
        wrap(scaler, "update", self, after=lambda args, _: guard._look_at_scale(args[0]))

        def before_scale(args: Any, kwargs: Any) -> None:
            if getattr(args[0], "_enabled", False):
                guard.scalers = True
                guard._note("loss", args[1] if len(args) > 1 else kwargs["outputs"])
                guard.scaled = True  # what goes backward next is no loss any more

        wrap(scaler, "scale", self, before=before_scale)

    def _wrap_clip(self, torch: Any) -> None:
        home: Any = sys.modules["torch.nn.utils.clip_grad"]
        original = home.clip_grad_norm_
        guard = self

        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            norm = original(*args, **kwargs)
            if guard.is_active():
                guard.safely("note the gradient norm", guard._note, "gradient norm", norm)
            return norm

        copy_name(clip_grad_norm_, original)
        home.clip_grad_norm_ = torch.nn.utils.clip_grad_norm_ = clip_grad_norm_

    def _wrap_backward(self, torch: Any) -> None:
        original = torch.Tensor.backward
        guard = self

        def backward(loss: Any, *args: Any, **kwargs: Any) -> Any:
            if guard.is_active():
                if not guard.scaled:
                    guard.safely("note the loss", guard._note, "loss", loss)
                guard.scaled = False
            return original(loss, *args, **kwargs)

        torch.Tensor.backward = copy_name(backward, original)

    # --- being harmless ---

    def is_active(self) -> bool:
        """Return whether this call is the rank's own and may be looked at: no worker, no graph."""
        if os.getpid() != self.pid:
            return False
        if self.leaving is not None:
            self._leave_for_good()
        compiler = getattr(self.torch, "compiler", None)
        if compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling():
            return False
        cuda = self.torch.cuda
        return not (cuda.is_initialized() and cuda.is_current_stream_capturing())

    def safely(self, what: str, look: Callable[..., None], *args: Any) -> None:
        """Look; a failure of ours is told once, ends this kind of look, and never reaches the script."""
        if what in self.off:
            return
        try:
            with self.torch.no_grad():
                look(*args)
        except Exception as error:
            self.off.add(what)
            with contextlib.suppress(Exception):
                self.tools.report(
                    "guard_failed", what="the guard's attempt to " + what, error=repr(error)[:2000]
                )

    def tell(self, wrong: Wrong, step: int) -> None:
        """Say what is wrong, once; end the rank where the policy is to stop."""
        stops = wrong.stops and self.stops
        key = "%s %s" % (wrong.code, wrong.message[:12])
        self.said[key] = self.said.get(key, 0) + 1
        if self.said[key] > TIMES_TOLD and not stops:
            return
        names = names_of(self.torch, wrong.parameters, self.watched) if len(wrong.parameters) else []
        self.tools.report(
            "guard",
            code=wrong.code,
            severity="stop" if wrong.stops else "warn",
            stops=stops,
            step=step,
            message=wrong.message,
            fix=wrong.fix,
            parameters=names[:NAMES_TOLD],
            parameters_total=len(names),
        )
        self._print(wrong, step, names, stops=stops)
        if stops:
            self.leave(STOP_EXIT)

    def _print(self, wrong: Wrong, step: int, names: List[str], *, stops: bool) -> None:
        end = "stopped this rank" if stops else "warns"
        lines = ["gpulaunch guard %s at optimizer step %d [%s]: %s" % (end, step, wrong.code, wrong.message)]
        if names:
            more = " and %d more" % (len(names) - NAMES_TOLD) if len(names) > NAMES_TOLD else ""
            lines.append("  parameters: %s%s" % (", ".join(names[:NAMES_TOLD]), more))
        lines.append("  fix: %s" % wrong.fix)
        with contextlib.suppress(Exception):
            print("\n".join(lines), file=sys.stderr, flush=True)

    def leave(self, code: int) -> None:
        """End the rank from inside the script's own call, so that its `finally` clauses run."""
        self.leaving = code
        raise SystemExit(code)

    def _leave_for_good(self) -> None:
        """The script has caught our SystemExit and trains on, or it went to a thread: end the process."""
        with contextlib.suppress(Exception):
            self.tools.report("leaving", code=self.leaving)
            self._at_exit()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(self.leaving or 0)

    # --- the hooks ---

    def _pre_hook(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.is_active():
            return
        self.fired += 1
        closure = any(callable(each) for each in (*args, *kwargs.values()))
        self.safely("look before a step", self._before_step, optimizer, closure)

    def _post_hook(self, optimizer: Any) -> None:
        if not self.is_active():
            return
        self.safely("look after a step", self._after_step, optimizer)
        if time.monotonic() - self.counted_at >= COUNT_EVERY_S:
            self.safely("count a step", self._count)
        if self.rehearsal is not None:
            self.safely("count a rehearsed step", self.rehearsal.stepped, self.record(optimizer))

    def _count(self) -> None:
        """Leave the number of steps for the gauge beside the supervisor: steps are a sign of life."""
        self.counted_at = time.monotonic()
        if self.steps_fd < 0:
            path = os.path.join(self.place.run_dir, "steps-rank-%d" % self.place.rank)
            self.steps_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self.steps_fd, b"%d\n" % self.fired, 0)

    def record(self, optimizer: Any) -> Watched:
        """Return what is kept about an optimizer."""
        found = self.watched.get(optimizer)
        if found is None:
            found = self.watched[optimizer] = Watched(optimizer)
        return found  # type: ignore[no-any-return]

    def step_now(self) -> int:
        """Return the number of the last step that was begun, counted by the busiest optimizer."""
        return max((each.tries for each in self.watched.values()), default=0)

    def _before_step(self, optimizer: Any, closure: bool) -> None:  # noqa: FBT001 - through safely()
        seen = self.record(optimizer)
        seen.tries += 1
        seen.fired += 1
        step = seen.tries
        if seen.fired == 1:
            self.safely("judge dtypes", self._first_look, optimizer, seen)
            self.safely("look at the first weights", self._send_first_weights, optimizer)
        self.safely("compare dtypes", self._compare_dtypes, optimizer, seen)
        if closure:
            return  # the gradients are made inside the step
        if seen.fired <= 2:
            self.safely("find parameters without gradient", self._missing_gradients, optimizer, seen)
        if self.rehearsal is not None:
            self.safely("rehearse gradients", self.rehearsal.before_step, optimizer)
        if self._samples(step) and not self.scalers:
            gradients = [p.grad for p in parameters(optimizer) if p.grad is not None]
            self.safely("look at gradients", self._send_values, "gradients", optimizer, gradients)

    def _after_step(self, optimizer: Any) -> None:
        seen = self.record(optimizer)
        self.read_pending()
        if self._samples(seen.tries):
            self.suspicious = False
            self._send_notes()
            self._send_values("weights", optimizer, list(parameters(optimizer)))
            self.read_pending()

    def _samples(self, step: int) -> bool:
        often = self.rehearsal is not None or self.suspicious
        return often or step <= FIRST_SAMPLES or step % SAMPLE_EVERY == 0

    # --- G1, G6, G7, G8: the first step ---

    def _first_look(self, optimizer: Any, seen: Watched) -> None:
        torch = self.torch
        trainable = list(parameters(optimizer))
        first = self.fired == 1
        if first:
            facts = self._facts(trainable)
            self.tools.report("guard_facts", **facts)
            for wrong in unlike_neighbours(self.place, facts):
                self.tell(wrong, seen.tries)
        for wrong in self._wrong_dtypes(optimizer, seen, trainable):
            self.tell(wrong, seen.tries)
        for wrong in self._wrong_devices(trainable):
            self.tell(wrong, seen.tries)
        half = any(p.dtype is torch.bfloat16 for p in trainable) or mixed_precision() == "bf16"
        device = first_cuda(trainable)
        if half and device is not None and torch.version.hip is None:
            major, minor = torch.cuda.get_device_capability(device)
            if major < 8:
                text = (
                    "bf16 on a GPU of compute capability %d.%d is emulated: slow, and not tested by anybody"
                )
                fix = "use fp16 mixed precision with float32 parameters on this GPU"
                self.tell(Wrong("G8", text % (major, minor), fix), seen.tries)

    def _wrong_dtypes(self, optimizer: Any, seen: Watched, trainable: List[Any]) -> Iterator[Wrong]:
        torch = self.torch
        half = [p for p in trainable if p.dtype is torch.float16]
        if half:
            kills = seen.divides_by_eps and not any(group.get("fused") for group in optimizer.param_groups)
            kills = (
                kills and min(group.get("eps", 1.0) for group in optimizer.param_groups) <= EPS_LOST_IN_FP16
            )
            text = "%d of %d trainable parameter tensors are float16 and %s trains them in pure fp16"
            text = text % (len(half), len(trainable), type(optimizer).__name__)
            if kills:
                text += (
                    ": its second moment and eps round to zero in fp16, so the weights become NaN in step 1"
                )
            else:
                text += ": small updates and small moments round to zero"
            yield Wrong("G1", text, FIX_FP16, kills, half)
        coarse = [p for p in trainable if p.dtype is torch.bfloat16]
        if coarse:
            text = (
                "%d of %d trainable parameter tensors are bfloat16: updates below 1/256 of a weight are lost"
            )
            fix = "train in float32 with bf16 mixed precision, if the memory is there"
            yield Wrong("G1", text % (len(coarse), len(trainable)), fix, parameters=coarse)

    def _wrong_devices(self, trainable: List[Any]) -> Iterator[Wrong]:
        planned = planned_gpu(self.place)
        devices = {p.device for p in trainable}
        if planned is None or not devices:
            return
        if all(device.type == "cpu" for device in devices):
            text = "all trainable parameters are on the CPU, while this rank was given %s"
            yield Wrong("G6", text % planned, "move the model to accelerator.device, not to a fixed device")
        for device in sorted((d for d in devices if d.type == "cuda"), key=str):
            uuid = self.tools.gpu_uuid(device)
            if uuid and uuid != planned:
                text = "trainable parameters are on %s (%s), while this rank was given %s"
                fix = "use accelerator.device instead of a fixed cuda:N, and no device_map='auto'"
                yield Wrong("G6", text % (device, uuid, planned), fix, True)

    def _facts(self, trainable: List[Any]) -> dict[str, Any]:
        torch = self.torch
        device = first_cuda(trainable)
        facts: dict[str, Any] = {
            "dtypes": histogram(p.dtype for p in trainable),
            "devices": histogram(p.device for p in trainable),
            "mixed_precision": mixed_precision(),
            "scaler": self.scalers,
            "versions": {"torch": str(torch.__version__)},
            "gpu": self.tools.gpu_uuid(device) if device is not None else "",
        }
        for name in ("accelerate", "transformers"):
            if name in sys.modules:
                facts["versions"][name] = str(getattr(sys.modules[name], "__version__", ""))
        if device is not None:
            facts["capability"] = list(torch.cuda.get_device_capability(device))
            with contextlib.suppress(Exception):
                facts["versions"]["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        return facts

    # --- G2, G3: every step ---

    def _compare_dtypes(self, optimizer: Any, seen: Watched) -> None:
        cast = []
        state = optimizer.state
        adam = seen.is_adam
        for group in optimizer.param_groups:
            for p in group["params"]:
                gradient = p.grad
                if gradient is None:
                    continue
                dtype = gradient.dtype
                if dtype is not p.dtype:
                    self._odd_gradient(p, dtype, seen.tries)
                if adam:
                    moments = state.get(p)
                    average = moments.get("exp_avg") if moments else None
                    if average is not None and average.dtype is not dtype:
                        cast.append(p)
        if cast:
            self._tell_cast(optimizer, seen, cast)

    def _odd_gradient(self, p: Any, dtype: Any, step: int) -> None:
        text = "a %s parameter has a %s gradient" % (short(p.dtype), short(dtype))
        self.tell(
            Wrong("G2", text, "let autograd make the gradient; assign to .grad, not .data", parameters=[p]),
            step,
        )

    def _tell_cast(self, optimizer: Any, seen: Watched, cast: List[Any]) -> None:
        now, before = short(cast[0].dtype), short(optimizer.state[cast[0]]["exp_avg"].dtype)
        text = (
            "%d trainable parameter tensors were cast from %s to %s between step %d and step %d; Adam's state"
            " is still %s, and its step would fail%s"
        )
        fused = any(group.get("fused") for group in optimizer.param_groups)
        torchs = {"float32": "float", "float64": "double", "float16": "c10::Half"}.get(before, before)
        error = ' with "expected dtype %s for `end`"' % torchs
        if fused:
            error = ": the fused kernel wants parameters, gradients and state of one dtype"
        text = text % (len(cast), before, now, seen.tries - 1, seen.tries, before, error)
        old = version_tuple(self.torch) < (2, 1) and not fused  # promotes silently
        self.tell(Wrong("G3", text, FIX_CAST, not old, cast), seen.tries)

    # --- G4: values ---

    def _note(self, what: str, value: Any) -> None:
        """Keep the loss or the gradient norm; on the CPU it can be looked at right away."""
        if isinstance(value, (list, tuple)) or not hasattr(value, "numel"):
            return
        if value.numel() != 1:
            return
        value = local(value)
        step = self.step_now() + 1
        if value.device.type == "cpu":
            self._judge_note(what, step, float(value))
            return
        notes = self.noted[what]
        if len(notes) < 4 * SAMPLE_EVERY:
            notes.append((step, value))

    def _judge_note(self, what: str, step: int, number: float) -> None:
        if self.rehearsal is not None:
            self.rehearsal.note(what, number)
        if math.isfinite(number) or (self.scalers and what != "loss"):
            return  # a scaler skips the step by itself
        self.suspicious = True
        self.bad.setdefault(what, step)
        if not self.scalers:
            fix = "look at this step's data, the learning rate, and fp16 that overflows in the forward"
            self.tell(Wrong("G4", "the %s is not finite" % what, fix), step)

    def _send_notes(self) -> None:
        for what, notes in self.noted.items():
            if not notes:
                continue
            steps = [step for step, _ in notes]
            values = [value.float().reshape(()) for _, value in notes]
            notes.clear()
            if len({value.device for value in values}) == 1:
                reading = Reading(self.torch, steps[-1], [self.torch.stack(values)])
                self.pending.append((what, reading, steps))

    def _send_first_weights(self, optimizer: Any) -> None:
        """Have one number computed for each weight tensor: those that never were finite are no fault."""
        by_device: dict[Any, List[Any]] = {}
        for p in parameters(optimizer):
            total = self._sum(p)
            if total is not None:
                by_device.setdefault(total.device, []).append((id(p), total))
        for sums in by_device.values():
            reading = Reading(self.torch, 0, [self.torch.stack([total for _, total in sums])])
            self.pending.append(("first weights", reading, [key for key, _ in sums]))
        self.read_pending()

    def _sum(self, tensor: Any) -> Any:
        """Return a number that is finite if all values are, None for what has no plain values."""
        torch = self.torch
        own = local(tensor)
        if own.layout is not torch.strided or not own.is_floating_point() or own.numel() == 0:
            return None
        wide = torch.float64 if own.dtype is torch.float64 else torch.float32
        return own.sum(dtype=wide).float()

    def _send_values(self, what: str, optimizer: Any, tensors: List[Any]) -> None:
        """Have one number per device computed that is finite if all values are; sums see NaN and Inf."""
        torch = self.torch
        by_device: dict[Any, List[Any]] = {}
        for tensor in tensors:
            total = None if id(tensor) in self.born_bad else self._sum(tensor)
            if total is not None:
                by_device.setdefault(total.device, []).append(total)
        values = [torch.stack(sums).sum().reshape(1) for sums in by_device.values()]
        if values:
            import weakref

            reading = Reading(torch, self.record(optimizer).tries, values)
            self.pending.append((what, reading, weakref.ref(optimizer)))

    def read_pending(self) -> None:
        """Judge what has arrived from the GPU by now."""
        waiting: List[Any] = []
        ready: List[Any] = []
        for entry in self.pending:
            (ready if entry[1].is_ready() else waiting).append(entry)
        self.pending = waiting
        for what, reading, about in ready:
            if what == "first weights":
                pairs = zip(about, reading.numbers())  # noqa: B905 - Python 3.9
                self.born_bad.update(key for key, number in pairs if not math.isfinite(number))
            elif isinstance(about, list):
                for step, number in zip(about, reading.numbers()):  # noqa: B905 - Python 3.9
                    self._judge_note(what, step, number)
            elif all(map(math.isfinite, reading.numbers())):
                self._seen_finite(what, reading.step, about())
            else:
                self._seen_bad(what, reading.step, about())

    def _seen_finite(self, what: str, step: int, optimizer: Any) -> None:
        if what == "weights" and optimizer is not None:
            seen = self.record(optimizer)
            seen.last_good = max(seen.last_good, step)

    def _seen_bad(self, what: str, step: int, optimizer: Any) -> None:
        """Confirm, name and tell; waiting for the GPU is fine now."""
        if optimizer is None:
            return
        torch = self.torch
        tensors = [(p, p.grad if what == "gradients" else p) for p in parameters(optimizer)]
        bad = [
            p for p, value in tensors if value is not None and not bool(torch.isfinite(local(value)).all())
        ]
        if what == "gradients":
            self.bad.setdefault(what, step)
            self.suspicious = True
            text = (
                "gradients are not finite, and no GradScaler will skip this step: the weights are lost by it"
            )
            fix = "the forward overflows (fp16 without autocast?) or the loss does; find the first bad batch"
            self.tell(Wrong("G4", text, fix, parameters=bad), step)
            return
        bad = [p for p in bad if id(p) not in self.born_bad]
        if not bad:
            return  # the sum overflowed, the weights did not
        self.bad.setdefault(what, step)
        total = len(tensors)
        earlier = min((at for name, at in self.bad.items() if name != "weights"), default=step)
        first = min(earlier, step)
        good = self.record(optimizer).last_good
        text = "%d of %d weight tensors are NaN or Inf after step %d" % (len(bad), total, step)
        text += " (finite after step %d)" % good if good else " (finite when it began)"
        said = sorted(name for name in self.bad if name != "weights")
        text += "; bad first: %s at step %d" % (", ".join(said), first) if said else "; gradients were finite"
        fix = (
            FIX_FP16
            if any(p.dtype is torch.float16 for p in bad)
            else (
                "nothing can be saved from these weights: start again from the last good checkpoint, with a"
                " lower learning rate, gradient clipping, or float32 parameters if these were cast"
            )
        )
        self.tell(Wrong("G4", text, fix, True, bad), first)

    # --- G1 and G5: the scaler ---

    def _look_at_scaled(self, scaler: Any, optimizer: Any) -> None:
        torch = self.torch
        self.scalers = True
        if type(scaler).__name__ == "ShardedGradScaler":
            return  # FSDP's own: it unscales fp16 gradients on purpose
        trained = [p for p in parameters(optimizer) if p.grad is not None]
        half = [p for p in trained if p.grad.dtype is torch.float16]
        step = self.step_now() + 1
        if half:
            text = (
                "%d of %d trainable parameter tensors are float16 under a GradScaler, which raises"
                ' "Attempting to unscale FP16 gradients."; with a fused optimizer and no clipping it would'
                " silently train in pure fp16"
            )
            self.tell(Wrong("G1", text % (len(half), len(trained)), FIX_FP16, True, half), step)
        brain = [p for p in trained if p.grad.dtype is torch.bfloat16 and p.device.type == "cuda"]
        if brain:
            text = (
                "%d of %d trainable parameter tensors are bfloat16 under a GradScaler, which has no CUDA"
                " kernel for them (\"not implemented for 'BFloat16'\")"
            )
            fix = "keep float32 parameters under fp16 mixed precision, or use bf16, which has no scaler"
            self.tell(Wrong("G1", text % (len(brain), len(trained)), fix, True, brain), step)

    def _scaler_stepped(self, optimizer: Any, skipped: bool) -> None:  # noqa: FBT001 - through safely()
        optimizer = getattr(optimizer, "optimizer", optimizer)
        seen = self.record(optimizer)
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return  # a fused optimizer is always called; _look_at_scale sees the scale fall
        if skipped:
            seen.tries += 1
        self._count_skip(seen, skipped=skipped)

    def _count_skip(self, seen: Watched, *, skipped: bool) -> None:
        self.skips_in_a_row = self.skips_in_a_row + 1 if skipped else 0
        if not skipped:
            return
        seen.skips += 1
        if self.skips_in_a_row >= self.skips_allowed:
            text = "the GradScaler has skipped %d steps in a row (scale %g): the gradients never are finite"
            fix = (
                "the forward overflows in fp16: use bf16 where the GPUs have it, or no mixed precision"
                " (models pretrained in bf16 often overflow in fp16)"
            )
            self.skips_in_a_row = 0
            first = seen.tries - self.skips_allowed + 1
            self.tell(Wrong("G5", text % (self.skips_allowed, self.scale), fix, True), first)
        if self.rehearsal is not None:
            self.rehearsal.stepped(seen)

    def _look_at_scale(self, scaler: Any) -> None:
        scale = getattr(scaler, "_scale", None)
        if scale is None or not getattr(scaler, "_enabled", False):
            return
        if self.scale_reading is not None and self.scale_reading.is_ready():
            self._scale_is(self.scale_reading.numbers()[0])
            self.scale_reading = None
        if self.scale_reading is None:
            self.scale_reading = Reading(self.torch, 0, [scale.reshape(1)])
            if not self.scale_reading.events:
                self._scale_is(self.scale_reading.numbers()[0])
                self.scale_reading = None

    def _scale_is(self, number: float) -> None:
        before, self.scale = self.scale, number
        fused = [each for each in self.watched if getattr(each, "_step_supports_amp_scaling", False)]
        if len(fused) == 1 and not math.isnan(before):
            self._count_skip(self.record(fused[0]), skipped=number < before)
        if number < 1.0:
            fix = "the gradients overflow whatever the scale: use bf16 or no mixed precision"
            self.tell(
                Wrong("G5", "the GradScaler's scale has fallen below 1 (%g)" % number, fix), self.step_now()
            )

    # --- G9 ---

    def _missing_gradients(self, optimizer: Any, seen: Watched) -> None:
        trainable = [
            p for p in parameters(optimizer) if p.numel()
        ]  # FSDP: what other ranks hold is empty here
        none = [p for p in trainable if p.grad is None]
        before, seen.without_gradient = seen.without_gradient, {id(p) for p in none}
        if not none:
            return
        names = dict(zip(map(id, trainable), names_of(self.torch, trainable, self.watched)))  # noqa: B905 - 3.9
        adapters = [
            p for p in trainable if "lora_" in names.get(id(p), "") or "adapter" in names.get(id(p), "")
        ]
        dead = [p for p in none if before is not None and id(p) in before]
        everything = len(dead) == len(trainable)
        every_adapter = bool(adapters) and {id(p) for p in adapters} <= {id(p) for p in dead}
        if everything or every_adapter:
            who = "no trainable parameter" if everything else "none of the %d adapter tensors" % len(adapters)
            text = "%s has got a gradient in two steps: nothing is being trained" % who
            fix = (
                "with gradient checkpointing call model.enable_input_require_grads(), or pass"
                " use_reentrant=False; make the optimizer after PEFT has made its adapters"
            )
            self.tell(Wrong("G9", text, fix, True, dead), seen.tries)
        elif before is None and len(none) < len(trainable) and not (adapters and len(none) >= len(adapters)):
            text = "%d of %d trainable parameter tensors got no gradient in the first step" % (
                len(none),
                len(trainable),
            )
            fix = (
                "freeze what is not used (requires_grad_(False)), or find out why the loss does not reach it"
            )
            self.tell(Wrong("G9", text, fix, parameters=none), seen.tries)

    # --- the end ---

    def _at_exit(self) -> None:
        if os.getpid() != self.pid:
            return
        self.stops = False  # too late to stop, not to tell
        with contextlib.suppress(Exception):
            if self.torch.cuda.is_initialized():
                self.torch.cuda.synchronize()
            self._send_notes()
            self.read_pending()
        if self.rehearsal is not None:
            with contextlib.suppress(Exception):
                self.rehearsal.finish()
        if self.leaving is not None:
            with contextlib.suppress(Exception):
                self._end_cleanly(self.leaving)

    def _end_cleanly(self, code: int) -> None:
        """Keep torch's own threads from aborting an interpreter that ends in the middle of a training."""
        if code:
            import logging
            import multiprocessing.util

            multiprocessing.util._exit_function()  # type: ignore[attr-defined] # noqa: SLF001 - workers end
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        distributed = sys.modules.get("torch.distributed")  # a rehearsal: every rank is at this same step
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


class Rehearsal:
    """Counts and measures the steps of a rehearsal, and ends it."""

    def __init__(self, guard: Guard, steps: int) -> None:
        self.guard = guard
        self.steps = steps
        self.done = 0
        self.times: List[float] = [time.monotonic()]
        self.with_gradient: set[int] = set()
        self.optimizers: List[Any] = []  # held, so that they can still be measured when the script has ended
        self.losses: List[float] = []
        self.non_finite: set[str] = set()
        self.trainer: dict[str, Any] = {}
        self.uses_trainer = False
        self.events: dict[str, float] = {}
        self.gradient_dtypes: dict[str, int] = {}
        self.fetched: dict[int, int] = {}  # by dataset: samples that its loaders have given
        self.fetched_before: dict[int, int] = {}  # the same, when the first step had ended
        self.told = False
        self.complete = False

    def note(self, what: str, number: float) -> None:
        """Take a loss or a gradient norm."""
        if what == "loss":
            self.losses.append(number)
        if not math.isfinite(number):
            self.non_finite.add(what)

    def before_step(self, optimizer: Any) -> None:
        """See which parameters have a gradient."""
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)
        own = list(parameters(optimizer))
        found = [p for p in own if p.grad is not None]
        self.with_gradient.update(id(p) for p in found)
        self.gradient_dtypes = histogram(p.grad.dtype for p in found)

    def stepped(self, seen: Watched) -> None:
        """Count a step, performed or skipped; end after the last one, unless Trainer shall evaluate first."""
        self.done = max(self.done, seen.tries)
        self.times.append(time.monotonic())
        if len(self.times) == 2:
            self.fetched_before = dict(self.fetched)
        if self.done >= self.steps and not self.uses_trainer:
            self.end()

    def end(self) -> None:
        """The rehearsal has seen what it came for."""
        self.complete = True
        self.guard.read_pending()
        self.guard.leave(0)

    def saw(self, what: str) -> None:
        """Note the first evaluation or save."""
        self.events.setdefault(what, round(time.monotonic() - self.times[0], 3))

    def watch_loaders(self, module: ModuleType) -> None:
        """Count what DataLoaders give, so that a script's own loop has samples per second too."""
        base: Any = getattr(module, "_BaseDataLoaderIter")  # noqa: B009 - it is torch's own
        original = base.__next__
        rehearsal = self

        def following(iterator: Any) -> Any:
            batch = original(iterator)
            if rehearsal.guard.torch is not None and rehearsal.guard.is_active():
                rehearsal.guard.safely("count samples", rehearsal._gave, iterator, batch)
            return batch

        base.__next__ = copy_name(following, original)

    def _gave(self, iterator: Any, batch: Any) -> None:
        key = id(iterator._dataset)  # noqa: SLF001 - torch's own name for it
        self.fetched[key] = self.fetched.get(key, 0) + length(batch)

    def samples_per_step(self) -> Optional[float]:
        """Return how many samples of the training set this rank took per step, None when none was seen."""
        steps = len(self.times) - 2
        given = [count - self.fetched_before.get(key, 0) for key, count in self.fetched.items()]
        return max(given) / steps if steps > 0 and given and max(given) > 0 else None

    def watch_trainer(self, module: ModuleType) -> None:
        """Have transformers' Trainer evaluate and save after the last step, if it ever would."""
        handler: Any = module.CallbackHandler
        original = handler.call_event
        rehearsal = self

        def call_event(owner: Any, event: str, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            result = original(owner, event, args, state, control, **kwargs)
            if rehearsal.guard.torch is not None and rehearsal.guard.is_active():
                rehearsal.guard.safely(
                    "follow the Trainer", rehearsal._trainer_event, event, args, state, result or control
                )
            return result

        handler.call_event = copy_name(call_event, original)

    def _trainer_event(self, event: str, args: Any, state: Any, control: Any) -> None:
        self.uses_trainer = True
        if event == "on_train_begin":
            samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
            self.trainer = {
                "total_steps": int(state.max_steps),
                "samples_per_step": int(samples * getattr(args, "world_size", 1)),
            }
        elif event == "on_evaluate":
            self.saw("evaluation")
        elif event == "on_save":
            self.saw("save")
        elif event == "on_step_begin" and self.done >= self.steps:
            self.end()
        elif event == "on_step_end" and self.done >= self.steps:
            strategy = getattr(args, "eval_strategy", None) or getattr(args, "evaluation_strategy", "no")
            control.should_evaluate = (
                control.should_evaluate or str(getattr(strategy, "value", strategy)) != "no"
            )
            save = getattr(args, "save_strategy", "no")
            control.should_save = control.should_save or str(getattr(save, "value", save)) != "no"

    def finish(self) -> None:
        """Report once what was measured."""
        if not self.told and self.guard.torch is not None and self.optimizers:
            self.told = True
            self.guard.tools.report("rehearsal", **self.measured())

    def measured(self) -> dict[str, Any]:
        """Return the measurements as JSON types."""
        guard = self.guard
        optimizers = self.optimizers
        trained = [p for optimizer in optimizers for p in parameters(optimizer)]
        without = [p for p in trained if id(p) not in self.with_gradient and p.numel()]
        bad = [p for p in trained if not bool(guard.torch.isfinite(local(p)).all())]
        bad = [p for p in bad if id(p) not in guard.born_bad]
        between = [b - a for a, b in zip(self.times[1:], self.times[2:])]  # noqa: B905 - 3.9
        return {
            "complete": self.complete,
            "steps": self.done,
            "performed": max((each.fired for each in guard.watched.values()), default=0),
            "skipped": sum(each.skips for each in guard.watched.values()),
            "parameter_dtypes": histogram(p.dtype for p in trained),
            "gradient_dtypes": self.gradient_dtypes,
            "state_dtypes": state_dtypes(guard.torch, optimizers),
            "scaler": guard.scalers,
            "scale": None if math.isnan(guard.scale) else guard.scale,
            "mixed_precision": mixed_precision(),
            "losses": [round(loss, 6) if math.isfinite(loss) else str(loss) for loss in self.losses[-200:]],
            "finite": {
                "loss": None if not self.losses else "loss" not in self.non_finite,
                "gradients": "gradients" not in guard.bad and "gradient norm" not in guard.bad,
                "weights": not bad,
            },
            "without_gradient": names_of(guard.torch, without, guard.watched)[:NAMES_TOLD],
            "trainable": len(trained),
            "devices": histogram(p.device for p in trained),
            "gpu": guard.tools.gpu_uuid(first_cuda(trained)) if first_cuda(trained) is not None else "",
            "memory": memory(guard.torch, first_cuda(trained)),
            "step_s": [round(seconds, 4) for seconds in between],
            "stepping": [round(wall(at), 3) for at in (self.times[1], self.times[-1])] if between else None,
            "start_s": round(self.times[1] - self.times[0], 3) if len(self.times) > 1 else None,
            "events": self.events,
            "samples_per_step_here": self.samples_per_step(),
            **self.trainer,
        }


# --- small things --------------------------------------------------------------------------


def copy_name(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Give a wrapper the name, the docstring and the signature of what it wraps."""
    import functools

    return functools.update_wrapper(function, original)


def wrap(
    owner: Any,
    name: str,
    guard: Guard,
    before: Optional[Callable[[Any, Any], None]] = None,
    after: Optional[Callable[[Any, Any], None]] = None,
) -> None:
    """Wrap a method so that we look before or after each call of it."""
    original = getattr(owner, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not guard.is_active():
            return original(*args, **kwargs)
        if before is not None:
            guard.safely("look before " + name, before, args, kwargs)
        result = original(*args, **kwargs)
        if after is not None:
            guard.safely("look after " + name, after, args, kwargs)
        return result

    setattr(owner, name, copy_name(wrapper, original))


def local(tensor: Any) -> Any:
    """Return this rank's own part of a tensor, detached; reading a DTensor's values would be a collective."""
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()


def parameters(optimizer: Any) -> Iterator[Any]:
    """Yield what an optimizer trains."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                yield p


def wall(monotonic_s: float) -> float:
    """Return a moment of the monotonic clock as seconds since 1970."""
    return time.time() - (time.monotonic() - monotonic_s)


def length(batch: Any) -> int:
    """Return how many samples a batch holds: the first dimension of its first tensor."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(length, batch) if size), 0)
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 0


def histogram(things: Any) -> dict[str, int]:
    """Return how often each thing occurs, by its short name."""
    counts: dict[str, int] = {}
    for thing in things:
        counts[short(thing)] = counts.get(short(thing), 0) + 1
    return counts


def short(thing: Any) -> str:
    """Return float16 for torch.float16."""
    return str(thing).removeprefix("torch.")


def state_dtypes(torch: Any, optimizers: List[Any]) -> dict[str, int]:
    """Return the dtypes of what the optimizers remember per element."""
    return histogram(
        value.dtype
        for optimizer in optimizers
        for moments in optimizer.state.values()
        if isinstance(moments, dict)
        for value in moments.values()
        if isinstance(value, torch.Tensor) and value.dim() > 0
    )


def first_cuda(trainable: List[Any]) -> Any:
    """Return the first CUDA device among the parameters', None when there is none."""
    return next((p.device for p in trainable if p.device.type == "cuda"), None)


def version_tuple(torch: Any) -> tuple[int, int]:
    """Return (2, 13) for 2.13.0+cpu."""
    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)


def mixed_precision() -> Optional[str]:
    """Return what accelerate has been set up with, None when it is not in use."""
    state = sys.modules.get("accelerate.state")
    shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", None) or {}
    found = shared.get("_mixed_precision")
    return None if found is None else str(getattr(found, "value", found))


def planned_gpu(place: Place) -> Optional[str]:
    """Return the UUID that the plan gave this rank, None for a CPU rank or when it is unknown."""
    try:
        with open(os.path.join(place.run_dir, "expected.json"), "rb") as file:
            found = json.loads(file.read())["gpus"][place.local_rank]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, str) else None


def unlike_neighbours(place: Place, facts: dict[str, Any]) -> Iterator[Wrong]:
    """Compare this rank with those of its host that have told before it; nobody is waited for.

    The client compares all ranks of all hosts; nobody may be following when they begin to step.
    """
    mine = sorted(facts["dtypes"]), facts["mixed_precision"], facts["scaler"]
    for other in told_facts(place):
        where = "rank %s and rank %s of this host" % (other["rank"], place.rank)
        if facts["gpu"] and facts["gpu"] == other.get("gpu"):
            fix = "use accelerator.device in the script, never a fixed cuda:N or device_map='auto'"
            yield Wrong("G6", "%s are on one GPU, %s" % (where, facts["gpu"]), fix, True)
        theirs = sorted(other.get("dtypes") or {}), other.get("mixed_precision"), other.get("scaler")
        if theirs != mine:
            text = "%s are unlike (trainable dtypes, mixed precision, scaler): %s; %s"
            fix = "decide precision and dtypes once for all ranks, not from each rank's own GPU"
            yield Wrong("G7", text % (where, theirs, mine), fix, True)


def told_facts(place: Place) -> Iterator[dict[str, Any]]:
    """Yield what the guards of this host's other ranks have told at their first step so far."""
    try:
        with open(os.path.join(place.run_dir, "events.jsonl"), "rb") as file:
            lines = [line for line in file if b'"guard_facts"' in line]
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event.get("event") == "guard_facts" and event.get("rank") != place.rank:
                yield event


def memory(torch: Any, device: Any) -> dict[str, Any]:
    """Return peak and total memory in MiB: the GPU's, and this process's own."""
    import resource

    found: dict[str, Any] = {"rss_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    with contextlib.suppress(OSError, ValueError):
        found["host_total_mib"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if device is not None:
        free, total = torch.cuda.mem_get_info(device)
        found["gpu_peak_allocated_mib"] = torch.cuda.max_memory_allocated(device) >> 20
        found["gpu_peak_reserved_mib"] = torch.cuda.max_memory_reserved(device) >> 20
        found["gpu_total_mib"] = total >> 20
        found["gpu_free_mib"] = free >> 20
    return found


def names_of(torch: Any, wanted: Any, optimizers: Any) -> List[str]:
    """Return what the outermost module calls each parameter; slow, so only for telling."""
    names: dict[int, str] = {}
    with contextlib.suppress(Exception):
        names = _names_in_modules(torch, {id(p) for p in wanted})
    for optimizer in list(optimizers or ()):
        for number, group in enumerate(optimizer.param_groups):
            own = group.get("param_names") or []
            for index, p in enumerate(group["params"]):
                fallback = own[index] if index < len(own) else "group %d, parameter %d" % (number, index)
                names.setdefault(id(p), fallback)
    return [names.get(id(p), "?") for p in wanted]


def _names_in_modules(torch: Any, wanted: set[int]) -> dict[int, str]:
    import gc

    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    for module in modules:
        if id(module) in inner:
            continue
        for name, p in module.named_parameters():
            plain = name.removeprefix("module.")
            for wrapper in ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."):
                plain = plain.replace(wrapper, "")
            if id(p) in wanted and len(plain) > len(names.get(id(p), "")):
                names[id(p)] = plain
    return names


# --- rehearsal: where the script writes ------------------------------------------------------


def enter_scratch(place: Place, report: Report) -> None:
    """Let the script work in a copy of its directory made of links, where its output folder is empty.

    What it writes there under a relative path touches nothing of a former run. Raises OSError when that
    cannot be made: a rehearsal without it must not start.
    """
    real = os.getcwd()
    output = os.path.expanduser(os.environ.get("GPULAUNCH_OUTPUT", ""))
    scratch = os.path.join(real, SCRATCH, os.environ.get("GPULAUNCH_RUN_ID", "") or str(os.getppid()))
    hidden = os.path.relpath(os.path.join(real, output), real) if output else ""
    outside = hidden.split(os.sep)[0] in ("..", ".", "")
    os.makedirs(scratch, exist_ok=True)
    link_all(real, scratch, [] if outside else hidden.split(os.sep))
    if place.local_rank == 0:
        kept = os.path.realpath(os.path.join(real, output)) if output else ""
        note = {"scratch": scratch, "output": kept, "before": stamps(kept)}
        write_json(os.path.join(place.run_dir, "scratch.json"), note)
    os.chdir(scratch)
    sys.argv[:] = [word.replace("{scratch}", scratch) for word in sys.argv]
    if output:
        keep_off(os.path.realpath(os.path.join(real, output)), report)


def link_all(real: str, scratch: str, hidden: List[str]) -> None:
    """Fill a directory with links to another one's entries; `hidden` names a path that stays out."""
    for name in os.listdir(real):
        if name == SCRATCH:
            continue
        if hidden and name == hidden[0]:
            if len(hidden) > 1 and os.path.isdir(os.path.join(real, name)):
                os.makedirs(os.path.join(scratch, name), exist_ok=True)
                link_all(os.path.join(real, name), os.path.join(scratch, name), hidden[1:])
            continue
        with contextlib.suppress(FileExistsError):  # another rank of this host was faster
            os.symlink(os.path.join(real, name), os.path.join(scratch, name))


def keep_off(output: str, report: Report) -> None:
    """End the rehearsal before Python code writes, renames or deletes anything in the real output folder."""
    pid = os.getpid()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def inside(path: Any) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        real = os.path.realpath(os.fsdecode(path))
        return real == output or real.startswith(output + os.sep)

    def audit(event: str, args: Any) -> None:
        if event == "open":
            path, mode, flags = args
            touches = ((flags or 0) & writing) != 0 or (isinstance(mode, str) and set(mode) & set("wax+"))
            paths = [path] if touches else []
        elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"):
            paths = [args[0]]
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = [args[0], args[1]]
        else:
            return
        if os.getpid() == pid and any(map(inside, paths)):
            message = "the script was about to change %s, which belongs to a real run" % os.fsdecode(
                paths[-1]
            )
            fix = (
                "write elsewhere in rehearsals: `rehearse_args: [--output, '{scratch}/output']` in the config"
            )
            report(
                "guard",
                code="R1",
                severity="stop",
                stops=True,
                step=0,
                message=message,
                fix=fix,
                parameters=[],
            )
            print(
                "gpulaunch rehearsal stopped [R1]: %s\n  fix: %s" % (message, fix),
                file=sys.stderr,
                flush=True,
            )
            raise SystemExit(STOP_EXIT)

    sys.addaudithook(audit)


def stamps(folder: str) -> dict[str, List[int]]:
    """Return size and time of every file below a folder."""
    found: dict[str, List[int]] = {}
    for base, _, names in os.walk(folder) if folder else ():
        for name in names:
            path = os.path.join(base, name)
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                found[os.path.relpath(path, folder)] = [info.st_size, info.st_mtime_ns]
    return found


def write_json(path: str, value: Any) -> None:
    """Replace a file as a whole."""
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def clean(run_dir: str) -> dict[str, Any]:
    """Remove what a rehearsal wrote; return what of the real output changed meanwhile."""
    import shutil

    try:
        with open(os.path.join(run_dir, "scratch.json"), "rb") as file:
            note = json.loads(file.read())
    except FileNotFoundError:
        return {"removed": True, "changed": []}  # no rank came so far
    scratch = note["scratch"]
    if os.path.basename(os.path.dirname(scratch)) == SCRATCH:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(scratch))
    before, after = note["before"], stamps(note["output"])
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return {"removed": not os.path.lexists(scratch), "scratch": scratch, "changed": changed[:20]}


# --- the door --------------------------------------------------------------------------------


def prepare(place: Place, tools: Tools) -> Optional[Guard]:
    """Set up what the environment asks for. Raises OSError when a rehearsal cannot be made safe."""
    policy = os.environ.get("GPULAUNCH_GUARD", "off")
    steps = int(os.environ.get("GPULAUNCH_REHEARSE", "") or 0)
    if policy not in ("stop", "warn") and not steps:
        return None
    if steps:
        enter_scratch(place, tools.report)
    guard = Guard(place, tools, stops=policy == "stop" or steps > 0, steps=steps)

    def torch_imported(module: ModuleType) -> None:
        try:
            guard.install(module)
        except Exception as error:
            if not steps:
                raise
            tools.report("guard_failed", what="the guard's attempt to watch torch", error=repr(error)[:2000])
            raise SystemExit(STOP_EXIT) from error  # unguarded, a rehearsal would be a run

    watched: dict[str, Callable[[ModuleType], None]] = {"torch": torch_imported}
    if guard.rehearsal is not None:
        watched["transformers.trainer_callback"] = guard.rehearsal.watch_trainer
        watched["torch.utils.data.dataloader"] = guard.rehearsal.watch_loaders
    tools.after_import(watched)
    return guard


if __name__ == "__main__":
    if sys.argv[1:] == ["clean"]:
        print(json.dumps(clean(os.path.dirname(os.path.abspath(__file__)))))
