import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

accelerator = Accelerator()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.zeros(64, 4)), batch_size=8, shuffle=True)  # expect: R401 warning
model, optimizer = accelerator.prepare(model, optimizer)
progress = tqdm(loader)
for batch in progress:
    loss = model(batch.to(accelerator.device)).sum()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
