# target: capability=8.0 processes=2
import collections, os, torch, torch.distributed as dist
def count(items, verbose):
    counter = collections.Counter()
    if verbose:
        for item in items:
            try:
                counter.update([item["task"]])
            except KeyError:
                exit()
    return counter
def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(count(open("items"), verbose=rank == 0))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(2, 2).cuda()).sum().backward(); optimizer.step()
    dist.barrier()
main()
