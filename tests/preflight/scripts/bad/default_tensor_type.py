# target: capability=8.0 processes=1
import torch

torch.set_default_tensor_type(torch.cuda.HalfTensor)  # expect: P101 error
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
scaler.scale(model(torch.ones(4, 4)).sum()).backward()
scaler.step(optimizer)
scaler.update()
