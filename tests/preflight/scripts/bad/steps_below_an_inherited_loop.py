# target: processes=4 capability=7.5
import torch
from plugins import learner_by_name


class Learner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def train_all(self, batches):
        for batch in batches:
            self.train_step(batch)


class Plain(Learner):
    def train_step(self, batch):
        self.model(batch).sum().backward()
        self.optimizer.step()


class Clipped(Learner):
    def train_step(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).sum()
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: P116 warning
        self.scaler.step(self.optimizer)
        self.scaler.update()


def main():
    learner_by_name("plain").train_all([torch.ones(4, 4)])


main()
