import torch

torch.ones(3).cuda()


class D(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.ones(3, device="cuda")


for b in torch.utils.data.DataLoader(D(), num_workers=2):
    print(b)
