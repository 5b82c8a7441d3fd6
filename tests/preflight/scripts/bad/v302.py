# target: transformers=4.50.0
import torch
from transformers import AutoModel
m = AutoModel.from_pretrained("x", dtype=torch.float32)  # expect: V302 error
