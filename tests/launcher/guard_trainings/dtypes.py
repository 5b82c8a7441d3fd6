"""Trainings in fp16 and bf16, right and wrong."""

import sys
from typing import Any

import torch
import torch._dynamo  # here, and not again in every fork that compiles

from tests.launcher.guard_trainings.kit import Kit, mse, net, train


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
