# target: capability=8.0 processes=1
import torch
import webdataset as wds
from accelerate import Accelerator
from nets import load_net

accelerator = Accelerator()
net = load_net()
optimizer = torch.optim.AdamW(net.parameters())
archives = wds.WebDataset("data/{000..059}.tar")
loader = wds.WebLoader(archives.decode("torchrgb").to_tuple("jpg", "cls"), batch_size=64, num_workers=4)
net, optimizer = accelerator.prepare(net, optimizer)
for x, y in loader:
    accelerator.backward(torch.nn.functional.cross_entropy(net(x.to(accelerator.device)), y))
    optimizer.step()
    optimizer.zero_grad()
