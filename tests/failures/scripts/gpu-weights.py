import torch

torch.cuda.set_per_process_memory_fraction(3 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192) for _ in range(14)])
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters", flush=True)
model.to("cuda")
