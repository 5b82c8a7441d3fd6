# target: capability=8.0 processes=4
import os

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import HfArgumentParser, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
for batch in range(10):
    with torch.amp.autocast("cuda", torch.bfloat16):
        loss = model(batch)
    loss.backward()
    optimizer.step()
