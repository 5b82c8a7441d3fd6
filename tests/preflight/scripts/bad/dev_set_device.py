import torch
torch.cuda.set_device(0)  # expect: D201 warning
model = torch.nn.Linear(1, 1).cuda()
