# target: capability=7.5
import torch


def update(net, opt, scaler, loss, clip):
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
    scaler.step(opt)
    scaler.update()


net = torch.nn.Linear(8, 1).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for x in torch.randn(16, 4, 8):
    with torch.autocast("cuda", torch.float16):
        loss = net(x.cuda()).sum()
    update(net, opt, scaler, loss, 1.0)
