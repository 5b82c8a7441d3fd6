import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
class Trainer:
    def __init__(self, cfg):
        self.accelerator = Accelerator(gradient_accumulation_steps=2, log_with="wandb")
        self.model = AutoModelForCausalLM.from_pretrained(cfg.name, dtype=torch.float32)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.model, self.opt, self.dl = self.accelerator.prepare(self.model, self.opt, cfg.dl)
    @torch.no_grad()
    def evaluate(self):
        model = self.accelerator.unwrap_model(self.model)
        model.eval()
        model.to(torch.bfloat16)  # expect: P111 error
        model.generate()
        model.train()
    def fit(self):
        for step, batch in enumerate(self.dl):
            with self.accelerator.accumulate(self.model):
                loss = self.model(**batch).loss
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.opt.zero_grad()
            if step % 100 == 0:
                self.evaluate()
if __name__ == "__main__":
    import yaml, types
    Trainer(types.SimpleNamespace(**yaml.safe_load(open("c.yaml")))).fit()
