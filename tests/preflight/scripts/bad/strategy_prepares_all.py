# target: capability=8.0 processes=4
from abc import ABC, abstractmethod
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM
import os


class Strategy(ABC):
    @abstractmethod
    def setup(self): ...

    @abstractmethod
    def prepare(self, *objs): ...

    def backward(self, loss, opt):
        loss.backward()

    def optimizer_step(self, opt, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


class DDPStrategy(Strategy):
    def __init__(self, precision: str = "fp16"):
        self.precision = precision

    def setup(self):
        dist.init_process_group(backend="nccl")
        self.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.local_rank)

    def prepare(self, *objs):
        return [self._model(o) if isinstance(o, torch.nn.Module) else o for o in objs]

    def _model(self, model):
        model = model.cuda()
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[self.local_rank])


class Actor(torch.nn.Module):
    def __init__(self, name, bf16=False):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16 if bf16 else torch.float16)  # expect: P102 error

    def forward(self, ids):
        return self.model(ids, labels=ids).loss


def main():
    strategy = DDPStrategy()
    strategy.setup()
    actor = Actor("gpt2")
    opt = torch.optim.Adam(actor.parameters(), lr=1e-6)
    actor, opt = strategy.prepare(actor, opt)
    for _ in range(100):
        loss = actor(torch.randint(0, 100, (1, 16)).cuda())
        strategy.backward(loss, opt)
        strategy.optimizer_step(opt, actor)


if __name__ == "__main__":
    main()
