# target: capability=8.0 processes=8
import sys, torch, yaml, torch.distributed as dist, torch.multiprocessing as mp
class Context: pass
class Checkpoints:
    def __init__(self, config, context): self.config, self.context = config, context
    def are_mine(self): return not self.config.ranks or (self.config.ranks and self.context.rank % self.context.gpus == 0)
    def save(self, model):
        if self.are_mine():
            torch.save(model.state_dict(), "last.pt")
def work(gpu, config, context):
    if config.ranks:
        context.rank = context.rank * context.gpus + gpu
    dist.init_process_group("nccl", rank=context.rank, world_size=8)
    torch.cuda.set_device(gpu)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(2, 2).cuda()).sum().backward(); optimizer.step()
    Checkpoints(config, context).save(model)
if __name__ == "__main__":
    config, context = yaml.safe_load(open(sys.argv[1])), Context()
    context.rank, context.gpus = 0, torch.cuda.device_count()
    mp.spawn(work, nprocs=context.gpus, args=(config, context))
