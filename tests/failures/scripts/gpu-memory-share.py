import torch

torch.cuda.set_per_process_memory_fraction(0.01)
torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
