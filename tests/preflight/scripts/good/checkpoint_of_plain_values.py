import argparse, collections, os, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def forward(self, x): return self.l(x)
model = Net(); opt = torch.optim.SGD(model.parameters(), 0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
parser = argparse.ArgumentParser(); parser.add_argument("--out", default="m.pt"); args = parser.parse_args()
for i in range(3):
    opt.zero_grad(); model(torch.randn(8, 4)).mean().backward(); opt.step(); sched.step()
torch.save({'model': model.state_dict(), 'args': vars(args), 'opt': opt.state_dict(), 'epoch': 3}, 'c.pt')
c = torch.load('c.pt')
