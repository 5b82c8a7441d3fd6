# target: capability=8.0 processes=2 args=--distributed
import argparse, os, torch, torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
rank = 0
if args.distributed:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    model(torch.randn(2, 2).cuda()).sum().backward(); optimizer.step()
    if args.distributed:
        if rank == 0:
            print(step)
        else:
            continue
    torch.save(model.state_dict(), "last.pt")
for step in range(5):
    try:
        if rank == 0:
            torch.save(optimizer.state_dict(), "optimizer.pt")
        else:
            continue
        print(step)
    finally:
        dist.barrier()


def save(name):
    try:
        if rank == 0:
            torch.save(model.state_dict(), name)
            return
        print(name)
    finally:
        dist.barrier()


save("last.pt")
