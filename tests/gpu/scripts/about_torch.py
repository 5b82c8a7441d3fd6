"""Prints what torch says of itself and of the GPUs that it sees, as one line of JSON."""

import json
import sys

import torch

found = {
    "version": torch.__version__,
    "python": sys.version.split()[0],
    "cuda": torch.version.cuda,
    "available": torch.cuda.is_available(),
    "gpus": [],
}
if found["available"]:
    found["arch_list"] = torch.cuda.get_arch_list()
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        found["gpus"].append(
            {
                "uuid": f"GPU-{about.uuid}",
                "name": about.name,
                "capability": [about.major, about.minor],
                "memory_mib": about.total_memory >> 20,
            }
        )
print(json.dumps(found))
