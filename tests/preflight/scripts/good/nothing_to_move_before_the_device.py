# target: processes=2
import os

import torch
from torch import nn

LAYERS = {"softmax": nn.Softmax}
criterion = nn.KLDivLoss(reduction="batchmean").cuda()
smooth = LAYERS["softmax"](dim=1).to("cuda:0")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Linear(4, 4).cuda()
