# target: capability=8.0 processes=1
import argparse

import torch
import torchvision
from loops import load_loaders, train

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
net = torchvision.models.mobilenet_v2().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
start_epoch = 0
if args.resume:
    state = torch.load(args.resume, map_location="cpu")
    net.load_state_dict(state["net"])  # expect: C505 warning
    start_epoch = state["epoch"] + 1
loaders = load_loaders()
for epoch in range(start_epoch, 200):
    train(loaders, net, optimizer)
    torch.save({"epoch": epoch, "net": net.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
