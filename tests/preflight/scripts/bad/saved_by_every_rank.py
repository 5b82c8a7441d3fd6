import os

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

dist.init_process_group("nccl")
rank = dist.get_rank() if dist.is_initialized() else 0
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
network = AutoModelForCausalLM.from_config("gpt2").cuda()
model = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.AdamW(model.parameters())
chosen = "best" in os.environ and rank in (-1, 0)
for epoch in range(3):
    model(torch.zeros(4, 4)).sum().backward()
    optimizer.step()
    print(f"rank {rank}: {epoch}")
    torch.save(network.state_dict(), "model.pt")  # expect: R405 warning
    network.save_pretrained("out")  # expect: R405 warning
    log = os.path.join("logs", f"{rank}.txt")
    if chosen:
        torch.save(network.state_dict(), "best.pt")
    if rank == 0:
        network.save_pretrained("first")
network.save_pretrained(f"out-{rank}")
