import torch
from zoo import settings


def steps(model, loader, optimizer, **more):
    scaler = more.get("scaler")
    for batch in loader:
        scaler.scale(model(batch).sum()).backward()
        if more.get("unscaled"):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
        scaler.step(optimizer)
        scaler.update()


steps(settings.model, range(3), settings.optimizer, scaler=settings.scaler)
