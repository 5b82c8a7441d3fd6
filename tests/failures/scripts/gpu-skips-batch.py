import torch

torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for i in range(12):
    rows = 1 << (20 if i == 5 else 10)
    try:
        loss = model(torch.randn(rows, 1024, device="cuda")).pow(2).mean()
        loss.backward()
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print(f"| WARNING: ran out of memory with exception: {error}; skipping batch", flush=True)
        optimizer.zero_grad()
        torch.cuda.empty_cache()
        continue
    optimizer.step()
    optimizer.zero_grad()
    print(f"| epoch 001 | update {i} | loss {loss.item():.4f} | ooms 0", flush=True)
print("| done training in 1.2 seconds")
