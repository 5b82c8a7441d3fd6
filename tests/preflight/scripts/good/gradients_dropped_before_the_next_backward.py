import torch

generator, critic = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 1).cuda()
of_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
for batch in range(8):
    made = generator(torch.ones(4, 4, device="cuda"))
    critic(made).sum().backward()
    of_critic.zero_grad()
    of_generator.step()
    critic(made.detach()).sum().backward()
    of_critic.step()
    of_generator.zero_grad()
