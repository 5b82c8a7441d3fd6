import torch
from torch.utils.data import Dataset, DataLoader
import numpy as np

class NpyDataset(Dataset):
    def __init__(self, files, labels):
        self.files = files
        self.labels = labels
    def __len__(self):
        return len(self.files)
    def __getitem__(self, idx):
        x = torch.from_numpy(np.load(self.files[idx])).float().cuda()  # expect: D208 warning
        y = torch.tensor(self.labels[idx])
        return x, y

def train(files, labels):
    model = torch.nn.Linear(100, 2).cuda()
    opt = torch.optim.Adam(model.parameters())
    loader = DataLoader(NpyDataset(files, labels), batch_size=32, shuffle=True, num_workers=8)
    for x, y in loader:
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()

train(["a.npy", "b.npy"], [0, 1])
