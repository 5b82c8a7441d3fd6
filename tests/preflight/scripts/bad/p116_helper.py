import torch
from torch.nn.utils import clip_grad_norm_
from torch.cuda.amp import GradScaler, autocast
def optimize(loss, opt, scaler, params, clip):
    opt.zero_grad()
    scaler.scale(loss).backward()
    if clip is not None:
        clip_grad_norm_(params, clip)  # expect: P116 warning
    scaler.step(opt)
    scaler.update()
def main():
    net = torch.nn.Linear(1, 1).cuda()
    opt = torch.optim.Adam(net.parameters())
    sc = GradScaler()
    for x in get_loader():
        with autocast():
            loss = net(x).sum()
        optimize(loss, opt, sc, net.parameters(), 1.0)
main()
