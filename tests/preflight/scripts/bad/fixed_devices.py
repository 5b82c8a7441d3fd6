# target: processes=2
import argparse

import torch
from accelerate import Accelerator
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:1")  # expect: D201 error
args = parser.parse_args()
codec = nn.Linear(2, 2).to("cuda")  # expect: D202 error
teacher = nn.Linear(2, 2).to(torch.device("cuda:0"))  # expect: D201 error
other = nn.Linear(2, 2).to(args.device)
third = nn.Linear(2, 2).cuda(0)  # expect: D201 error
accelerator = Accelerator()
