import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data import DataLoader, TensorDataset


class Training:
    def __init__(self, model, loader):
        self.model = FSDP(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batches = iter(loader)

    def step(self):
        batch = next(self.batches)
        loss = self.model(batch).sum()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    loader = DataLoader(TensorDataset(torch.zeros(64, 4)), batch_size=8, shuffle=True)  # expect: R401 warning
    training = Training(torch.nn.Linear(4, 4), loader)
    while True:
        training.step()


main()
