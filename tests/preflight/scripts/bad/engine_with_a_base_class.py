import torch
from torch.cuda import amp
class Base:
    def __init__(self, args):
        self.args = args
        self.scaler = amp.GradScaler(enabled=args.use_amp)
        self.build()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
    def build(self): raise NotImplementedError
    def step(self, batch):
        with amp.autocast(enabled=self.args.use_amp):
            loss = self.net(batch).mean()
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.args.clip)  # expect: P116 warning
        self.scaler.step(self.optimizer)
        self.optimizer.zero_grad()
        self.scaler.update()
class Sub(Base):
    def build(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU()).cuda()
def get_args():
    import argparse
    p = argparse.ArgumentParser()
    p.add_argument("--use_amp", action="store_true", default=True)
    p.add_argument("--clip", type=float, default=1.0)
    return p.parse_args()
def main():
    args = get_args()
    s = Sub(args)
    for batch in torch.utils.data.DataLoader([1]):
        s.step(batch)
main()
