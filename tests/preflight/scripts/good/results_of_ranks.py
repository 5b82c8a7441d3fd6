import contextlib
import functools
import io
import json
import os
import sys
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
losses = []


def on_first(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if int(os.environ.get("RANK", "0")) == 0:
            return function(*args, **kwargs)
        return None

    return wrapper


@on_first
def save(path):
    torch.save(model.module.state_dict(), path)


save("model.pt")
with open(f"losses_{rank}.json", "w") as file:
    json.dump(losses, file)
with open("log.txt", "a") as file:
    file.write("done")
with open(sys.argv[1], "w") as file:
    file.write("of an unknown path")
(Path("runs") / f"{rank}.txt").write_text("lr")
np.save(Path("runs") / f"losses{rank}.npy", np.array(losses))
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    print("of every rank")
for name in ("/dev/null", "/proc/self/oom_score_adj", "/dev/stderr"):
    with open(name, "w") as file:
        file.write("1000")
losses += json.load(fsspec.filesystem("s3").open("wiki/a.json"))
buffer = io.BytesIO()
np.save(buffer, np.array(losses))
text = pd.DataFrame(losses).to_csv()
writer = io.StringIO() if rank == 0 else None
if writer is not None:
    pd.DataFrame(losses).to_csv("losses.csv")
