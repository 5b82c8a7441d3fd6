# target: capability=8.0
import torch
from data import batches


class GanLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.discriminator = torch.nn.Linear(16, 1)

    def forward(self, real, fake, of_discriminator):
        if of_discriminator:
            return self.discriminator(fake.detach()).mean() - self.discriminator(real).mean()
        return -self.discriminator(fake).mean()


model = torch.nn.Linear(16, 16).cuda()
gan_loss = GanLoss().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
judge = torch.optim.SGD(gan_loss.discriminator.parameters(), lr=0.1)
for x in batches():
    optimizer.zero_grad()
    fake = model(x.cuda())
    loss = gan_loss(x.cuda(), fake, False)
    loss.backward()
    optimizer.step()
    judge.zero_grad()
    loss_of_judge = gan_loss(x.cuda(), fake, True)
    loss_of_judge.backward()
    judge.step()
