import torch, yaml
cfg = yaml.safe_load("optim:\n  lr: 1e-4\n  betas: [0.9, 0.95]\n")
net = torch.nn.Linear(4, 4).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=cfg["optim"]["lr"], betas=tuple(cfg["optim"]["betas"])); print(opt)
