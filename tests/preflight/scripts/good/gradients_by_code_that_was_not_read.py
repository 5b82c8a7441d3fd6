import torch
from lab.critics import train_critic
from lab.mixing import Mixer
from torch.utils.data import DataLoader

model, critic = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
second_order = torch.optim.LBFGS(critic.parameters())
mixer = Mixer(optimizer)


def put(parameters, gradients):
    for parameter, gradient in zip(parameters, gradients):
        setattr(parameter, "grad", gradient)


for batch in DataLoader(torch.ones(64, 4), batch_size=8):
    model(batch.cuda()).sum().backward()
    gradients = mixer.collect()
    optimizer.zero_grad()
    mixer.put(gradients)
    optimizer.step()
    model(batch.cuda()).sum().backward()
    gradients = mixer.collect()
    optimizer.zero_grad()
    put(model.parameters(), gradients)
    optimizer.step()
    of_critic.zero_grad()
    train_critic(critic, batch)
    of_critic.step()
    model(batch.cuda()).sum().backward()
    second_order.zero_grad()
    second_order.step(lambda: train_critic(critic, batch))
