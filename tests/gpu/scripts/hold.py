"""Holds MIB of GPU memory until it is ended: hold.py MIB [ready file]. What it holds is on stdout as JSON."""

import json
import os
import sys
import time
from pathlib import Path

import torch

mib = int(sys.argv[1])
block = torch.empty(mib << 20, dtype=torch.uint8, device="cuda:0")
if torch.version.cuda:
    block.fill_(1)  # memory is given when it is written
    torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info(0)
said = {
    "pid": os.getpid(),
    "uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}",
    "reserved_mib": torch.cuda.memory_reserved(0) >> 20,
    "free_mib": free >> 20,
    "total_mib": total >> 20,
    "pid_namespace": str(Path("/proc/self/ns/pid").readlink()),
}
print(json.dumps(said), flush=True)
time.sleep(600)
