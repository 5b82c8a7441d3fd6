# target: processes=4 capability=8.0
import torch, torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)

class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = Bert()
        self.v = nn.Linear(2, 2)
        self.text_projection = nn.Parameter(torch.empty(2, 2))
    def forward(self, x):
        return self.v(self.bert.l(x))

def convert_models_to_fp32(model):
    for p in model.parameters():
        p.data = p.data.float()
        if p.grad:
            p.grad.data = p.grad.data.float()

def convert_weights(model):
    def _conv(l):
        if isinstance(l, (nn.Conv1d, nn.Linear)):
            l.weight.data = l.weight.data.half()
            if l.bias is not None:
                l.bias.data = l.bias.data.half()
        if isinstance(l, Bert):
            l.to(torch.half)
        for name in ["text_projection", "proj"]:
            if hasattr(l, name):
                attr = getattr(l, name)
                if attr is not None:
                    attr.data = attr.data.half()
    model.apply(_conv)

def main():
    model = CLIP()
    convert_weights(model)
    convert_models_to_fp32(model)
    model.cuda()
    opt = torch.optim.AdamW(model.parameters())
    scaler = GradScaler()
    for x in range(10):
        with autocast():
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
if __name__ == "__main__":
    main()
