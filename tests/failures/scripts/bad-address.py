import os, datetime
import torch.distributed as dist
os.environ.update(MASTER_ADDR="no-such-host.invalid", MASTER_PORT="29681", RANK="1", WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
