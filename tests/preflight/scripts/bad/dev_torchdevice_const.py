import torch
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")  # expect: D201 warning
model = torch.nn.Linear(1, 1).to(device)
opt = torch.optim.SGD(model.parameters(), 0.1)
model(torch.zeros(1, 1).to(device)).backward(); opt.step()
