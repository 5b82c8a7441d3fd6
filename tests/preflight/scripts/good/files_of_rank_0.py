import errno
import io
import os

import torch
import torch.distributed as dist


def make(folder):
    try:
        os.makedirs(folder)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise


def save_on_master(*args):
    if dist.get_rank() == 0:
        torch.save(*args)


def copied(model):
    memory = io.BytesIO()
    torch.save(model, memory)
    return memory


def save(model, writer):
    if writer is not None:
        torch.save(model, "logged.pt")
    with zero_first(rank):
        torch.save(model, "first.pt")
    if dist.get_rank() != 0:
        return
    torch.save(model, "model.pt")


dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
make("out")
os.makedirs("more", exist_ok=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[rank])
save_on_master(model, "out/model.pt")
save(copied(model), None)
if not settings.distributed or rank % 8 == 0:
    torch.save(model, "one.pt")
torch.save(model, "of_%d.pt" % rank)
last = rank == 7
if last:
    torch.save(model, "last.pt")
