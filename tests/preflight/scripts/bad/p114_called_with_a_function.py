# target: capability=8.0
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def forward(inputs):
    return model(inputs).sum()


forward = torch.autocast("cuda", torch.float16)(forward)  # expect: P114 warning
for _ in range(3):
    forward(torch.ones(4).cuda()).backward()
    optimizer.step()
