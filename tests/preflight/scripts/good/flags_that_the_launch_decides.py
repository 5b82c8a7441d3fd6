# target: capability=8.0 processes=4
"""absl: the script sets FLAGS.distributed by the world size, and launchers pass --local_rank."""
import os

import torch
import torch.distributed as dist
from absl import app, flags
from torch import nn

FLAGS = flags.FLAGS
flags.DEFINE_integer("gpu", 0, "GPU")
flags.DEFINE_boolean("distributed", False, "several ranks")
flags.DEFINE_integer("local_rank", 0, "rank on this host")


def main(_):
    FLAGS.distributed = False
    if "WORLD_SIZE" in os.environ:
        FLAGS.distributed = int(os.environ["WORLD_SIZE"]) > 1
    if FLAGS.distributed:
        FLAGS.gpu = FLAGS.local_rank
        torch.cuda.set_device(FLAGS.gpu)
        dist.init_process_group("nccl")
    model = nn.Linear(8, 8).cuda(FLAGS.gpu)
    if FLAGS.distributed:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[FLAGS.gpu])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 8, device=f"cuda:{FLAGS.gpu}")).mean().backward()
    optimizer.step()


app.run(main)
