# target: capability=8.0 processes=1
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self):
        self.x = torch.zeros(1000, 3, 8, 8)
        self.gpu = torch.zeros(1000, device="cuda")

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return self.x[index % self.gpu.shape[0]], index % 10


model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Images(), batch_size=32, num_workers=4):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
