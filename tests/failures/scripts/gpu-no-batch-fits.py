import torch

torch.cuda.set_per_process_memory_fraction(1 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Linear(4096, 16384).cuda()
for attempt in range(3):
    try:
        model(torch.randn(1 << (18 - attempt), 4096, device="cuda")).sum().backward()
        break
    except torch.OutOfMemoryError:
        print(f"attempt {attempt} ran out of memory, halving the batch", flush=True)
        torch.cuda.empty_cache()
else:
    raise SystemExit("no batch size fits, giving up")
