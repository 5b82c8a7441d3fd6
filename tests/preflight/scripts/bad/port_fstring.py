import torch.distributed as dist, os
port = 29501
dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=int(os.environ["RANK"]), world_size=2)  # expect: D207 warning
