import argparse

import torch
import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="configs/a.yaml")
cfg = yaml.safe_load(open(parser.parse_args().config))
model = torch.nn.Linear(4, 4).cuda().to(getattr(torch, cfg["dtype"]))  # expect: P102 error
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(4, 4)).sum().backward()
optimizer.step()
