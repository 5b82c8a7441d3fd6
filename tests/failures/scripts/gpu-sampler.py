import torch

torch.set_default_device("cuda")
data = torch.utils.data.TensorDataset(torch.randn(64, 8))
for epoch in range(2):
    for (x,) in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        print("epoch", epoch, x.mean().item(), flush=True)
