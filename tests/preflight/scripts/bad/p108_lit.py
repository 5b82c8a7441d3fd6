import torch
USE_SCALER = False
model = torch.nn.Linear(1, 1).half().cuda()  # expect: P102 error
opt = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=USE_SCALER)  # expect: P108 error
for x in get_loader():
    scaler.scale(model(x).sum()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
