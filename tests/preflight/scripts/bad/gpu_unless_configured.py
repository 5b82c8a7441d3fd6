# target: capability=8.0 processes=4
"""A fixed GPU stands where nothing else is known to: it may be another's."""
import os

import torch

helper = torch.nn.Linear(4, 4)
helper.to(os.environ.get("HELPER_GPU") or "cuda:0")  # expect: D201 warning
