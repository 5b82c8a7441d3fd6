# target: capability=8.0 processes=2
import torch
import wandb
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, AutoTokenizer


class SampleCallback:
    def __init__(self, tok, every=100):
        self.tok, self.every = tok, every

    def on_step_end(self, trainer):
        if trainer.step % self.every:
            return
        model = trainer.accelerator.unwrap_model(trainer.model)
        was = next(model.parameters()).dtype
        model.eval().half()  # expect: P111 warning
        ids = self.tok("Once", return_tensors="pt").input_ids.to(trainer.accelerator.device)
        print(self.tok.decode(model.generate(ids, max_new_tokens=20)[0]))
        model.to(was).train()


class MiniTrainer:
    def __init__(self, model, loader, callbacks=()):
        self.accelerator = Accelerator(mixed_precision="bf16")
        opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
        self.model, self.opt, self.loader = self.accelerator.prepare(model, opt, loader)
        self.callbacks = list(callbacks)
        self.step = 0

    def _fire(self, event):
        for cb in self.callbacks:
            getattr(cb, event)(self)

    def train(self):
        for batch in self.loader:
            loss = self.model(**batch).loss
            self.accelerator.backward(loss)
            self.opt.step()
            self.opt.zero_grad()
            self.step += 1
            self._fire("on_step_end")


if __name__ == "__main__":
    tok = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float32)
    data = [tok("hello world", return_tensors="pt") for _ in range(10)]
    MiniTrainer(model, torch.utils.data.DataLoader(data), [SampleCallback(tok)]).train()
