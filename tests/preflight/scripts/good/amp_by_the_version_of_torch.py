import torch

new = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
autocast = torch.amp.autocast if new else torch.cuda.amp.autocast
Scaler = torch.amp.GradScaler if new else torch.cuda.amp.GradScaler
scaler = Scaler("cuda") if new else Scaler()


def context(enabled):
    if new:
        return autocast("cuda", enabled=enabled)
    return autocast(enabled=enabled)


with context(enabled=True):
    pass
