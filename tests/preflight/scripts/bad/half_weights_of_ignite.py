import torch
from torch import nn, optim
from ignite.engine import create_supervised_trainer
from torch.cuda.amp import GradScaler
from data import get_loader

def main():
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    net = net.half().cuda()  # expect: P101 error
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    scaler = GradScaler()
    trainer = create_supervised_trainer(net, optimizer, nn.CrossEntropyLoss(), device="cuda", amp_mode="amp", scaler=scaler)
    trainer.run(get_loader(), max_epochs=3)

if __name__ == "__main__":
    main()
