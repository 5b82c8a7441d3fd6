import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
gradient = torch.ones(1 << 20, device="cuda")
size = 1 << 34
kept = []
while size >= 1 << 20:
    try:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        size //= 2
print("free MiB", torch.cuda.mem_get_info()[0] >> 20, flush=True)
dist.all_reduce(gradient)
print(gradient.sum().item())
dist.destroy_process_group()
