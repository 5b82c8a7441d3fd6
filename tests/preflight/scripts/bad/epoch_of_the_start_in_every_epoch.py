import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from tqdm.rich import tqdm_rich


def main():
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data)  # expect: R403 warning
    loader = DataLoader(data, sampler=sampler)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    start_epoch = torch.load("last.pt")["epoch"]
    for epoch in range(start_epoch, 3):
        sampler.set_epoch(start_epoch)
        for batch in tqdm_rich(loader):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch)


main()
