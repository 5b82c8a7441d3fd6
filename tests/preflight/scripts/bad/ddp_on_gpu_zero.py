import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = torch.nn.Linear(1, 1).to("cuda")
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], output_device=0)  # expect: D201 warning
