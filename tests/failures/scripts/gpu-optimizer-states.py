import torch

torch.cuda.set_per_process_memory_fraction(7 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192, device="cuda") for _ in range(10)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(5):
    loss = model(torch.randn(8, 8192, device="cuda")).pow(2).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f} mem {torch.cuda.memory_allocated() / 2**30:.1f} GiB", flush=True)
    optimizer.step()
    optimizer.zero_grad()
