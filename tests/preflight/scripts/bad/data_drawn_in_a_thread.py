# target: processes=4 capability=8.0
import os, torch, torch.distributed as dist, threading
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
import torchvision

def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = DDP(torchvision.models.resnet18().cuda(), device_ids=[rank])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(CIFAR10("d"), batch_size=32, shuffle=True)  # expect: R401 warning
    def work():
        for epoch in range(4):
            for x, y in loader:
                opt.zero_grad()
                torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
                opt.step()
    t = threading.Thread(target=work)
    t.start()
    t.join()

main()
