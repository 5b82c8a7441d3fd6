import os
import signal
import time

import torch

model = torch.nn.Linear(8, 8).cuda()
for step in range(4):
    print("step", step, model(torch.randn(2, 8, device="cuda")).sum().item(), flush=True)
    time.sleep(0.2)
os.kill(os.getpid(), signal.SIGUSR1)
