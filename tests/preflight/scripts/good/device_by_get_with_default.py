# target: capability=8.0 processes=4
import os
import torch
import torch.distributed as dist

_STATE = {}


def state(key, default=None):
    return _STATE.get(key, default)


def boot():
    _STATE["local"] = int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")))
    _STATE["device"] = torch.device("cuda", _STATE["local"])
    torch.cuda.set_device(state("device"))
    dist.init_process_group("nccl")


def get_device():
    return state("device", torch.device("cuda:0"))


def main():
    boot()
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to(get_device()), device_ids=[state("local")])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(4):
        net(torch.ones(1, 2, device=get_device())).sum().backward()
        opt.step(); opt.zero_grad()


if __name__ == "__main__":
    main()
