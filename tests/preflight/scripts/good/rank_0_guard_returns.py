# target: capability=8.0 processes=2
import torch
import torch.distributed as dist
from accelerate import Accelerator
from transformers import AutoModelForCausalLM


def report(accelerator):
    if not accelerator.is_main_process:
        return
    model = AutoModelForCausalLM.from_pretrained("out")
    model.to("cuda:0")
    print(model(torch.zeros(1, 2, device="cuda:0")))


def sample(rank):
    if rank != 0:
        return
    AutoModelForCausalLM.from_pretrained("out").cuda(0)


def main():
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model, opt = accelerator.prepare(model, opt)
    for _ in range(3):
        loss = model(torch.randn(2, 4, device=accelerator.device)).mean()
        accelerator.backward(loss)
        opt.step()
    report(accelerator)
    sample(dist.get_rank())


main()
