import datetime, time
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=3))
time.sleep(5)
