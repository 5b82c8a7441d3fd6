# target: capability=8.0 processes=4
import io
import os
import sys
import tempfile

import blobfile as bf
import fsspec
import h5py
import shutil
import torch
import torch.distributed as dist
from torchvision.utils import save_image

from storage import filesystem

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
out, weights = sys.argv[1], torch.nn.Linear(4, 4).state_dict()
with bf.BlobFile(bf.join(out, f"model_{rank}.pt"), "wb") as f:
    torch.save(weights, f)
with filesystem.open(os.path.join(out, "model.pt"), "rb") as f:
    torch.load(f)
with filesystem.open(os.path.join(out, "log.txt"), "ab") as f:
    torch.save(weights, f)
with filesystem.open(f"{out}/rank-{rank}.txt", mode="w") as f:
    f.write("done")
with h5py.File("features.h5", "r") as f:
    print(f["x"])
with h5py.File("features.h5") as f:
    print(f["x"])
with io.BytesIO() as f:
    torch.save(weights, f)
with tempfile.NamedTemporaryFile() as f:
    torch.save(weights, f)
if rank == 0:
    with fsspec.open("s3://bucket/model.pt", "wb") as f:
        torch.save(weights, f)
    save_image(weights["weight"], "sample.png")
    shutil.copyfile("last.pt", "best.pt")
