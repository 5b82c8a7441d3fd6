# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist


def gather(x, dst=0):
    words = {}
    if dist.get_rank() == dst:
        words["gather_list"] = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.gather(x, dst=dst, **words)
    return words.get("gather_list")


dist.init_process_group("gloo")
gather(torch.ones(1))
