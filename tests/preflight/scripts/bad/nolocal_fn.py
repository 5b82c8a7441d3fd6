import torch, os
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
def setup():
    dist.init_process_group("nccl")  # expect: D205 warning
def main():
    setup()
    device = torch.device("cuda")
    model = torch.nn.Linear(1, 1).to(device)
    model = DistributedDataParallel(model)
if __name__ == "__main__": main()
