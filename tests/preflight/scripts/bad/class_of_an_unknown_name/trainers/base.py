import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def loss(self, batch):
        raise NotImplementedError

    def train(self, batches):
        for batch in batches:
            self.scaler.scale(self.loss(batch)).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: P116 warning
            self.scaler.step(self.optimizer)
            self.scaler.update()
