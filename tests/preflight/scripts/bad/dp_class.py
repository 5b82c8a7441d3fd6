import torch
class Solver:
    def __init__(self, net):
        self.net = torch.nn.DataParallel(net, device_ids=[0, 1]).cuda()  # expect: D206 warning
    def fit(self):
        self.opt = torch.optim.Adam(self.net.parameters())
        self.opt.step()
Solver(torch.nn.Linear(1, 1)).fit()
