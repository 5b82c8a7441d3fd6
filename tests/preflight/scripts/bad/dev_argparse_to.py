import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:2")  # expect: D201 warning
args = parser.parse_args()
model = torch.nn.Linear(3, 3)
model.to(args.device)  # expect: D201 info
opt = torch.optim.Adam(model.parameters())
opt.step()
