import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import sys
from parts import make_experts
experts = make_experts()
for i, expert in enumerate(experts):
    expert.to("cuda")
for name, m in make_experts(loaded=True).items():
    m.cuda()
for i, agent in enumerate(make_experts()):
    agent.cuda()
