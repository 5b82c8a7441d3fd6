# target: capability=7.5
import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard

old = MixedPrecision(param_dtype=torch.bfloat16)  # expect: P131 warning
policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)  # expect: P131 warning
kept = MixedPrecisionPolicy(param_dtype=torch.float16)
unused = MixedPrecision(param_dtype=torch.bfloat16)
FullyShardedDataParallel(torch.nn.Linear(4, 4), mixed_precision=old)
for part in (policy, kept):
    fully_shard(torch.nn.Linear(4, 4), mp_policy=part)
