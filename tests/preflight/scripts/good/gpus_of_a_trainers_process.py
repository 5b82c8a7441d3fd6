# target: capability=8.0 processes=8
import torch
from transformers import Trainer, TrainingArguments


class OwnTrainer(Trainer):
    def train(self, *given, **named):
        if self.args.n_gpu > 1:
            self.model = torch.nn.DataParallel(self.model)
        return super().train(*given, **named)


model = torch.nn.Linear(4, 4)
OwnTrainer(model, TrainingArguments("out"), train_dataset=[]).train()
