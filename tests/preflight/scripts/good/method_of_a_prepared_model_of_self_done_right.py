# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
from data import dataset


class Tuner:
    def __init__(self):
        self.accelerator = Accelerator()
        model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        loader = DataLoader(dataset(), batch_size=4, shuffle=True)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)

    def sample(self, ids):
        with torch.no_grad():
            return self.accelerator.unwrap_model(self.model).generate(ids)

    def fit(self):
        for batch in self.loader:
            self.accelerator.backward(self.model(**batch).loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.sample(batch["input_ids"])


Tuner().fit()
