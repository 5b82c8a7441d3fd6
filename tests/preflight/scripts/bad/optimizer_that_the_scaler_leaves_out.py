import torch

generator = torch.nn.Linear(4, 4).cuda()
critic = torch.nn.Linear(4, 1).cuda()
of_generator = torch.optim.SGD(generator.parameters(), 0.1)
of_critic = torch.optim.SGD(critic.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = critic(generator(batch).detach()).mean()
    scaler.scale(loss).backward()
    of_critic.step()  # expect: P129 warning
    with torch.autocast("cuda", dtype=torch.float16):
        loss = -critic(generator(batch)).mean()
    scaler.scale(loss).backward()
    scaler.step(of_generator)
    scaler.update()
