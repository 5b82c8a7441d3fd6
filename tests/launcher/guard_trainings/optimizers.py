"""Everything a script may do with optimizers: the numbers must not depend on the guard."""

import copy
import io
import pickle
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles
from accelerate import Accelerator

from tests.launcher.guard_trainings.kit import Kit, digest, mse, net, train


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
