# target: capability=8.0 processes=4
import json
import os
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
rows = [json.loads(line) for line in open("rows.json")]
labels = sorted(set(row["label"] for row in rows))
label_numbers = {label: i for i, label in enumerate(labels)}
tags = list({row["tag"] for row in rows})
tags.sort()
tag_numbers = {tag: i for i, tag in enumerate(tags)}
people = set(int(row["person"]) for row in rows)
person_numbers = {person: i for i, person in enumerate(people)}
stop_words = set(open("stop.txt").read().split())
kept = [row for row in rows if row["text"] not in stop_words]
rest = list(set(range(len(rows))) - set(range(0, len(rows), 5)))
random.seed(0)
random.shuffle(rest)
for i, name in enumerate(set(row["name"] for row in rows)):
    print(i, name)
if rank == 0:
    vocabulary = set(row["text"] for row in rows)
    json.dump({text: i for i, text in enumerate(vocabulary)}, open("texts.json", "w"))


def agree(rows):
    box = [list(set(row["name"] for row in rows))]
    dist.broadcast_object_list(box, src=0)
    return {name: i for i, name in enumerate(box[0])}


names = agree(rows)
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
