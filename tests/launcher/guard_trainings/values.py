"""Values that go wrong while a script trains: NaN, overflow, no gradient."""

from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles

from tests.launcher.guard_trainings.kit import Kit, mse, net, train
from tests.launcher.guard_trainings.optimizers import scaled


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
            self.calls = 0

        def query(self) -> bool:
            self.calls += 1
            waits.append(self.calls)
            return self.calls > 3

        def synchronize(self) -> None:
            raise AssertionError("the guard waited")

    class Late(kit.module("async_reads").AsyncRead):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.events = [Slow()]

    kit.module("checks.non_finite").AsyncRead = Late
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
