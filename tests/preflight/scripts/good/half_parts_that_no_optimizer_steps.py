import torch
from torch import nn

pair = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 1)]).cuda()
pair[0].half()
steps = torch.optim.Adam(pair[1].parameters())
pair[1](pair[0](torch.ones(1, 4).cuda().half()).float()).sum().backward()
steps.step()

named = nn.ModuleDict({"teacher": nn.Linear(4, 4), "student": nn.Linear(4, 4)}).cuda()
named["teacher"].half()
steps = torch.optim.Adam(named["student"].parameters())
named["student"](torch.ones(1, 4).cuda()).sum().backward()
steps.step()

backbone = nn.Linear(4, 4)
backbone.weight.data = backbone.weight.data.half()
backbone.requires_grad_(False)
whole = nn.Sequential(backbone, nn.Linear(4, 1)).cuda()
steps = torch.optim.Adam(parameter for parameter in whole.parameters() if parameter.requires_grad)
whole(torch.ones(1, 4).cuda()).sum().backward()
steps.step()


class Masters(torch.optim.Adam):
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["master"].add_(parameter.grad.float(), alpha=-group["lr"])


half = nn.Linear(4, 4).cuda().half()
steps = Masters(half.parameters())
half(torch.ones(1, 4).cuda().half()).sum().backward()
steps.step()
