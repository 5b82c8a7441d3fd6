import argparse, torch
from torch import nn
def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", type=str, default="cuda:0")  # expect: D201 warning
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()
def main():
    args = get_args()
    device = torch.device(args.device)  # expect: D201 info
    model = nn.Linear(10, 2).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    for x, y in get_loader():
        loss = model(x.to(device)).sum()
        opt.zero_grad(); loss.backward(); opt.step()
main()
