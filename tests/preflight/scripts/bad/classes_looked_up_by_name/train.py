import os

import hydra
import torch
import torch.distributed as dist
import trainers
from registry import LOOPS, OWN, TRAINERS


@hydra.main(config_path="conf", config_name="config")
def main(cfg):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    x = torch.ones(1, device="cuda")
    OWN.get("Own")().train(x)
    TRAINERS.get("Registered")().train(x)
    TRAINERS.get("Bare")().train(x)
    LOOPS.build(dict(type="loop", steps=2)).train(x)
    hydra.utils.instantiate(cfg.trainer).train(x)
    vars(trainers)[cfg.name]().train(x)
    trainers.__dict__["Named"](steps=4).train(x)


if __name__ == "__main__":
    main()
