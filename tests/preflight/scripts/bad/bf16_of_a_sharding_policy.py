# target: capability=7.5
import torch
from torch.distributed.fsdp import MixedPrecision, MixedPrecisionPolicy

old = MixedPrecision(param_dtype=torch.bfloat16)  # expect: P131 warning
policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)  # expect: P131 warning
kept = MixedPrecisionPolicy(param_dtype=torch.float16)
