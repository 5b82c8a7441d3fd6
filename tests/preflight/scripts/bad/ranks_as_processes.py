# target: processes=4 capability=8.0
import os, torch, torch.distributed as dist, torch.multiprocessing as mp, torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

def run(gpu, world):
    os.environ["MASTER_ADDR"] = "localhost"  # expect: D207 warning
    dist.init_process_group("nccl", rank=gpu, world_size=world)
    torch.cuda.set_device(gpu)
    model = DDP(torchvision.models.resnet18().cuda(gpu), device_ids=[gpu])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(torchvision.datasets.CIFAR10("d"), 32, shuffle=True)  # expect: R401 warning
    for epoch in range(3):
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x.cuda(gpu)), y.cuda(gpu)).backward()
            opt.step()

if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    n = torch.cuda.device_count()
    ps = []
    for i in range(n):
        p = ctx.Process(target=run, args=(i, n))
        p.start()
        ps.append(p)
    for p in ps:
        p.join()
