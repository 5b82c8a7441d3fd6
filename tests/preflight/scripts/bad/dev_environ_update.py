import os
os.environ.update({"CUDA_VISIBLE_DEVICES": "1"})  # expect: D203 warning
import torch
