# target: capability=8.0 processes=4
"""Files that libraries open or write; weights in a file that is open count as those in a path."""
import os
import sys

import blobfile as bf
import cv2
import fsspec
import h5py
import joblib
import matplotlib.pyplot as plt
import shutil
import torch
import torch.distributed as dist
import zarr
from iopath.common.file_io import g_pathmgr
from omegaconf import OmegaConf
from torchvision.utils import save_image

from storage import filesystem

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
out, weights = sys.argv[1], torch.nn.Linear(4, 4).state_dict()
with bf.BlobFile(bf.join(out, "model.pt"), "wb") as f:
    torch.save(weights, f)  # expect: R405 warning
with g_pathmgr.open(os.path.join(out, "model.pt"), "wb") as f:
    torch.save(weights, f)  # expect: R405 warning
with filesystem.open(f"{out}/model.pt", "wb") as f:
    torch.save(weights, f)  # expect: R405 warning
with fsspec.open("s3://bucket/model.pt", "wb") as f:  # expect: R405 warning
    torch.save(weights, f)
with h5py.File("features.h5", "w") as f:  # expect: R405 warning
    f["x"] = weights["weight"].numpy()
zarr.open("features.zarr", mode="w", shape=(4,))  # expect: R405 warning
joblib.dump(weights, "weights.pkl")  # expect: R405 warning
OmegaConf.save(OmegaConf.create({"a": 1}), f="config.yaml")  # expect: R405 warning
save_image(weights["weight"], "sample.png")  # expect: R405 warning
cv2.imwrite("sample.jpg", weights["weight"].numpy())  # expect: R405 warning
figure, _ = plt.subplots()
figure.savefig("loss.png")  # expect: R405 warning
shutil.copyfile("last.pt", "best.pt")  # expect: R405 warning
