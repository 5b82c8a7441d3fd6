import torch
class T:
    def __init__(self):
        self.model = torch.nn.Linear(1, 1).cuda()
        self.optim = torch.optim.Adam(self.model.parameters())
    def save(self, path):
        torch.save(self.model.half().state_dict(), path)  # expect: P111 error
    def train(self):
        for step in range(100):
            loss = self.model(torch.zeros(1, 1)).sum()
            loss.backward()
            self.optim.step()
            if step % 10 == 0:
                self.save("x")
T().train()
