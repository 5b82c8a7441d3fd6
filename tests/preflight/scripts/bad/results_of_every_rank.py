import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
out, losses = Path("runs"), []
with open(out / "losses.json", "w") as file:  # expect: R405 warning
    json.dump(losses, file)
with Path("runs/losses.pkl").open("wb") as file:  # expect: R405 warning
    pickle.dump(losses, file)
(out / "config.txt").write_text("lr")  # expect: R405 warning
np.save("losses.npy", np.array(losses))  # expect: R405 warning
pd.DataFrame(losses).to_csv("runs/losses.csv")  # expect: R405 warning
verbose = True
if verbose:
    torch.save(model.module.state_dict(), "model.pt")  # expect: R405 warning
