# target: capability=8.0 processes=4
import os
import random
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Tagged:
    def __init__(self, rows):
        self.names = self._names(rows)
        self.index = {name: i for i, name in enumerate(self.names)}  # expect: R425 warning
        self.tags = list({row["tag"].lower() for row in rows})

    def _names(self, rows):
        found = set()
        for row in rows:
            found.add(row["intent"].strip())
        return list(found)

    def __getitem__(self, row):
        return self.tags.index(row["tag"].lower())  # expect: R425 warning


def count_words(lines):
    vocabulary = set()
    for line in lines:
        vocabulary.update(line.split())
    numbers = {}
    for word in vocabulary:  # expect: R425 warning
        numbers[word] = len(numbers)
    return numbers


dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
words = count_words(open("words.txt"))
files = list(set(Path("a").glob("*.wav")) | set(Path("b").glob("*.wav")))
mine = files[rank::world]  # expect: R425 warning
train_files = list(set(files) - set(mine))
random.seed(0)
random.shuffle(train_files)  # expect: R425 warning
speakers = dict(zip(set(p.stem for p in files), range(10)))  # expect: R425 warning
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
