# target: capability=8.0 processes=4
"""A file of classes, which the program of another folder imports."""

import torch


class Trainer:
    def __init__(self, model, loader, scaler=None):
        self.model = model
        self.loader = loader
        self.scaler = torch.amp.GradScaler("cuda")
        self.optimizer = torch.optim.AdamW(model.parameters())

    def train_epoch(self):
        for batch in self.loader:
            batch = batch.to("cuda:0")  # expect: D201 warning
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(batch).sum()
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: P116 warning
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def fit(self, epochs):
        for _ in range(epochs):
            self.train_epoch()
