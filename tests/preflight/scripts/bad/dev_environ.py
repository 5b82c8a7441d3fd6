import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # expect: D203 warning
import torch
from accelerate import Accelerator
acc = Accelerator()
