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
def shrink(net, limit):
    for _, p in net.named_parameters():
        norm = p.grad.data.norm(2)
        if norm > limit:
            p.grad.data.mul_(limit / norm)  # expect: P116 warning
def halve(net):
    for p in net.parameters():
        p.grad.mul_(0.5)
def main():
    net = torch.nn.Linear(1, 1).cuda()
    opt = torch.optim.Adam(net.parameters())
    sc = GradScaler()
    for x in get_loader():
        with autocast():
            loss = net(x).sum()
        sc.scale(loss).backward()
        halve(net)
        shrink(net, 1.0)
        sc.step(opt)
        optimize(loss, opt, sc, net.parameters(), 1.0)
main()
