"""What every scenario uses: the guard, a small model, its data and a loop that trains it."""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles

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


@cache
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
