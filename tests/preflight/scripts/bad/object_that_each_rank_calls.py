# target: capability=8.0 processes=4
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Training:
    def __init__(self, gpu):
        self.gpu = gpu

    def __call__(self, rank):
        dist.init_process_group("nccl", rank=rank, world_size=4)
        torch.cuda.set_device(self.gpu)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        optimizer = torch.optim.AdamW(model.parameters())
        for batch in range(3):
            model(batch).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    mp.spawn(Training(0), nprocs=4)  # expect: D201 error
