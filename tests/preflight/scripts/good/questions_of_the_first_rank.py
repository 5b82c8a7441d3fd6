# target: capability=8.0 processes=4
import os

import torch
from torch import distributed as dist


def on_main() -> bool:
    if not dist.is_initialized() or dist.get_rank() == 0:
        return True
    return False


def on_first() -> bool:
    if dist.get_rank() != 0:
        return False
    else:
        return True


def has_data() -> bool:
    if dist.get_rank() == 0:
        print("prepared")
        return True
    return True


def save(path: str) -> None:
    torch.save(model.state_dict(), path)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(2, 2).cuda()
if has_data():
    dist.barrier()
for epoch in range(3):
    if on_main() and (epoch % 2 == 0 or epoch in os.environ):
        save("last.pt")
    if on_first():
        save("best.pt")
