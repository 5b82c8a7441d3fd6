import glob, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    lr = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(lr)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[lr])
    opt = torch.optim.SGD(model.parameters(), 0.1)
    files = sorted(glob.glob("data/*.pt"))
    for f in files[rank::world]:  # expect: R404 warning
        x, y = torch.load(f)
        opt.zero_grad()
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        opt.step()
    dist.destroy_process_group()
main()
