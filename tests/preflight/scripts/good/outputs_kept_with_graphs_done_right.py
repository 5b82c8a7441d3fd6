import torch
from net import Net
from data import train_loader, val_loader

@torch.no_grad()
def validate(model):
    model.eval()
    preds, targets = [], []
    for x, y in val_loader:
        preds.append(model(x.cuda()))
        targets.append(y)
    return torch.cat(preds), torch.cat(targets)

def main():
    model = Net().cuda()
    opt = torch.optim.Adam(model.parameters())
    for epoch in range(5):
        model.train()
        for x, y in train_loader:
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            opt.step()
        validate(model)
main()
