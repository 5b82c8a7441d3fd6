import torch
from torch import nn, optim
def train_one_epoch(model, loader, optimizer, device, scaler=None):
    model.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler is not None):
            loss = nn.functional.cross_entropy(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.cuda.amp.GradScaler()
    for epoch in range(10):
        train_one_epoch(model, get_loader(), optimizer, device, scaler)
if __name__ == "__main__":
    main()
