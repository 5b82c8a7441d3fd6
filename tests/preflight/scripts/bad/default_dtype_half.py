import torch
torch.set_default_dtype(torch.float16)  # expect: P101 error
net = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.Adam(net.parameters())
scaler = torch.cuda.amp.GradScaler()
for x in loader():
    scaler.scale(net(x).sum()).backward()
    scaler.step(opt)
    scaler.update()
