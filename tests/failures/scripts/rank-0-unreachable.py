import os, datetime
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29677", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
