import torch.distributed as dist, torch, argparse
p = argparse.ArgumentParser()
p.add_argument("--dist-url", default="tcp://127.0.0.1:4444", type=str)
p.add_argument("--rank", default=0, type=int)  # expect: D201 warning
a = p.parse_args()
torch.cuda.set_device(a.rank)  # expect: D201 info
dist.init_process_group("nccl", init_method=a.dist_url, world_size=2, rank=a.rank)  # expect: D207 warning
