import torch
import torch.distributed as dist
from detectron2.engine import launch


def main(args):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.ones(4, 4, device="cuda")).sum().backward()
        optimizer.step()
    dist.barrier()


if __name__ == "__main__":
    launch(main, 4, num_machines=1, machine_rank=0, dist_url="auto", args=(None,))
