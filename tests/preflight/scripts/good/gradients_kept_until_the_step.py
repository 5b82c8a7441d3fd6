import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--parts", type=int, default=1)
args = parser.parse_args()
model, critic = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
batches = torch.load("batches.pt", map_location="cpu")
for step, (x, y) in enumerate(batches):
    loss = torch.nn.functional.mse_loss(model(x), y) / 8
    loss.backward()
    if (step + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
for step, (x, y) in enumerate(batches):  # a generator that steps in some turns, and has a loss in these alone
    optimizer.zero_grad()
    of_critic.zero_grad()
    critic(x).sum().backward()
    of_critic.step()
    if step % 5 == 0:
        critic(model(x)).sum().backward()
        optimizer.step()
for step, (x, y) in enumerate(batches):  # of as many parts as there are
    for part in x.chunk(4):
        model(part).sum().backward()
    if step % 10 == 0:
        print(step)
    optimizer.step()
    optimizer.zero_grad()
for step, (x, y) in enumerate(batches):  # each optimizer has turns of its own
    optimizer.zero_grad()
    of_critic.zero_grad()
    (model(x) * critic(x)).sum().backward()
    if step % 2 == 0:
        optimizer.step()
    else:
        of_critic.step()
sums = [torch.zeros_like(each) for each in model.parameters()]
for step, (x, y) in enumerate(batches):  # a sum of the script's own
    optimizer.zero_grad()
    (model(x).sum() / 8).backward()
    for kept, each in zip(sums, model.parameters()):
        kept += each.grad
    if (step + 1) % 8 == 0:
        for kept, each in zip(sums, model.parameters()):
            each.grad = kept.clone()
        optimizer.step()
for step, (x, y) in enumerate(batches):  # each turn by default
    optimizer.zero_grad()
    model(x).sum().backward()
    if step % args.parts == 0:
        optimizer.step()
