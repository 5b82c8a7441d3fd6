# target: capability=8.0 processes=1
import torch
from yacs.config import CfgNode as CN

_C = CN()
_C.MODEL = CN()
_C.MODEL.DTYPE = "float16"
_C.AMP = True


def main():
    cfg = _C.clone()
    cfg.freeze()
    model = torch.nn.Linear(4, 4).cuda().to(getattr(torch, cfg.MODEL.DTYPE))  # expect: P101 error
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=cfg.AMP)
    scaler.scale(model(torch.ones(4, 4).cuda()).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


main()
