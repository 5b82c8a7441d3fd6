import torch
import math
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup
from torch.utils.data import DataLoader

ds = [{"input_ids": [number]} for number in range(1000)]


class Run:
    def __init__(self, epochs=3, accum=2):
        self.accelerator = Accelerator(gradient_accumulation_steps=accum)
        self.epochs = epochs
        self.model = AutoModelForCausalLM.from_pretrained("gpt2")
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.loader = DataLoader(ds, shuffle=True, batch_size=8)
        self.model, self.opt, self.loader = self.accelerator.prepare(self.model, self.opt, self.loader)
        updates = math.ceil(len(self.loader) / accum) * epochs
        self.sched = self.accelerator.prepare_scheduler(
            get_cosine_schedule_with_warmup(self.opt, 0, updates * self.accelerator.num_processes)
        )

    def fit(self):
        for _ in range(self.epochs):
            for batch in self.loader:
                with self.accelerator.accumulate(self.model):
                    self.accelerator.backward(self.model(**batch).loss)
                    self.opt.step()
                    self.sched.step()
                    self.opt.zero_grad()


Run().fit()
