import torch
DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"  # expect: D201 warning
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x)
def main():
    net = Net().to(DEVICE)  # expect: D201 info
    opt = torch.optim.AdamW(net.parameters())
    for x in get_loader():
        net(x.to(DEVICE)).sum().backward()
        opt.step()
if __name__ == "__main__":
    main()
