# target: capability=8.0 processes=8
import os
import sys
from dataclasses import dataclass, field, fields
from typing import Optional
import torch
from omegaconf import OmegaConf
from torch import nn
import torch.distributed as dist


@dataclass
class DistArgs:
    backend: str = "nccl"
    port: int = 29512
    amp_dtype: str = "fp16"


@dataclass
class TrainArgs:
    steps: int = 100
    distributed: DistArgs = field(default_factory=DistArgs)
    grad_clip: Optional[float] = 1.0


def setup_env(args: DistArgs):
    env = {"MASTER_PORT": str(args.port), "OMP_NUM_THREADS": "1"}
    for name, value in env.items():
        if os.environ.get(name) != str(value):
            os.environ[name] = str(value)  # expect: D207 warning


def get_dtype(name):
    return dict(fp32=torch.float32, bf16=torch.bfloat16, fp16=torch.float16)[name]


def train(args: TrainArgs):
    setup_env(args.distributed)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(args.distributed.backend)
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda())
    opt = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=args.distributed.amp_dtype == "fp16")
    for _ in range(args.steps):
        with torch.autocast("cuda", get_dtype(args.distributed.amp_dtype)):
            loss = net(torch.randn(2, 4, device="cuda")).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), args.grad_clip)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


def main():
    cli = OmegaConf.from_cli()
    cfg = OmegaConf.merge(OmegaConf.structured(TrainArgs()), cli)
    train(OmegaConf.to_object(cfg))


if __name__ == "__main__":
    main()
