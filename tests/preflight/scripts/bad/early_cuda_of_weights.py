# target: processes=2
import os

import torch
from torch import nn


class Distance(nn.PairwiseDistance):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(1, 1)


weighted = nn.CrossEntropyLoss(weight=torch.ones(4)).cuda()  # expect: D202 error
activation = nn.PReLU().cuda()  # expect: D202 error
clusters = nn.AdaptiveLogSoftmaxWithLoss(8, 9, [4]).cuda()  # expect: D202 error
distance = Distance().cuda()  # expect: D202 error
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
