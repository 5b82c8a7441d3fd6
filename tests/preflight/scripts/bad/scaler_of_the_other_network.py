import torch

generator = torch.nn.Linear(4, 4).cuda()
critic = torch.nn.Linear(4, 1).cuda()
of_generator = torch.optim.Adam(generator.parameters())
of_critic = torch.optim.Adam(critic.parameters())
scaler_g, scaler_c = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = critic(generator(batch).detach()).mean()
    scaler_c.scale(loss).backward()
    scaler_c.step(of_critic)  # expect: P128 error
    with torch.autocast("cuda", dtype=torch.float16):
        loss = -critic(generator(batch)).mean()
    scaler_g.scale(loss).backward()
    scaler_g.step(of_generator)
    scaler_g.update()
