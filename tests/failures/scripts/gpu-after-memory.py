import torch

torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Linear(1024, 4096).cuda()
metrics = {}
batch = 1 << 20
while batch > 1024:
    try:
        model(torch.randn(batch, 1024, device="cuda")).pow(2).mean().backward()
        break
    except torch.cuda.OutOfMemoryError as error:
        print(f"batch {batch} does not fit: {error}", flush=True)
        torch.cuda.empty_cache()
        batch //= 4
print("batch size", batch, flush=True)
for step in range(5):
    loss = model(torch.randn(batch, 1024, device="cuda")).pow(2).mean()
    metrics["train_loss"] = loss.item()
    print("step", step, metrics, flush=True)
print("best", metrics["val_loss"])
