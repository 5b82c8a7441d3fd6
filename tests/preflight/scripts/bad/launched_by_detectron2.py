import torch
import torch.distributed as dist
from detectron2.engine import launch


def main(args):
    model = torch.nn.Linear(4, 4).to("cuda:0")  # expect: D201 warning
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.ones(4, 4, device="cuda")).sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            dist.barrier()  # expect: R404 warning


if __name__ == "__main__":
    launch(main, 4, num_machines=1, machine_rank=0, dist_url="auto", args=(None,))
