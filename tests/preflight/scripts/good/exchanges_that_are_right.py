# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank = dist.get_rank()
world = dist.get_world_size()
lr = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(lr)
ds = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
val = TensorDataset(torch.randn(32, 4), torch.zeros(32).long())
s = DistributedSampler(ds)
tl = DataLoader(ds, 8, sampler=s, drop_last=True)
vs = DistributedSampler(val, shuffle=False)
vl = DataLoader(val, 8, sampler=vs)
m = DDP(nn.Linear(4, 2).cuda(), device_ids=[lr])
o = torch.optim.SGD(m.parameters(), 0.1)
x = torch.ones(2).cuda()
if rank == 0:
    out = [torch.zeros(2).cuda() for _ in range(world)]
    dist.gather(x, out, dst=0)
else:
    dist.gather(x, dst=0)
x = torch.ones(2).cuda()
out = [torch.zeros(2).cuda() for _ in range(world)] if rank == 0 else None
dist.gather(x, gather_list=out, dst=0)
o2 = [None] * world if rank == 0 else None
dist.gather_object({"a": 1}, o2, dst=0)
r = torch.zeros(2).cuda()
parts = [torch.ones(2).cuda() for _ in range(world)] if rank == 0 else []
dist.scatter(r, parts if rank == 0 else None, src=0)
t = torch.ones(2).cuda()
h = dist.all_reduce(t, async_op=True)
h.wait()
print(t)
w = dist.all_gather([torch.zeros(2).cuda() for _ in range(world)], t, async_op=True)
w.wait()
hs = []
for p in m.parameters():
    hs.append(dist.all_reduce(p.data, async_op=True))
for h in hs:
    h.wait()
import torch.distributed.nn as dnn

t = torch.ones(2, requires_grad=True).cuda()
u = dnn.all_reduce(t) / world
v = torch.cat(dnn.all_gather(t))
print(u.sum() + v.sum())


def all_reduce(t):
    t = t.clone()
    dist.all_reduce(t)
    return t / world


print(all_reduce(torch.ones(1).cuda()).item() / 2)
loss = torch.ones(1).cuda()
work = dist.all_reduce(loss)
loss = loss / world
print(loss.item())
out = [None] * world
dist.all_gather_object(out, {"r": rank})
print(out[0])
out = [torch.zeros(2).cuda()] * 1
lst = [torch.empty(2).cuda() for _ in range(world)]
dist.all_gather(lst, torch.ones(2).cuda())
for r in range(world):
    t = torch.ones(2).cuda() * r
    dist.broadcast(t, src=r)
for rank_ in range(dist.get_world_size()):
    dist.broadcast(torch.ones(1).cuda(), src=rank_)
n = torch.cuda.device_count()
groups = [dist.new_group(list(range(i * n, (i + 1) * n))) for i in range(world // n)]
t = torch.ones(1).cuda()
dist.broadcast(t, src=rank // n * n, group=groups[rank // n])


def sync(t, src=0):
    dist.broadcast(t, src=src)


sync(torch.ones(1).cuda())
sync(torch.ones(1).cuda(), world - 1)
g = dist.new_group([2, 3])
t = torch.ones(1).cuda()
if rank in (2, 3):
    dist.broadcast(t, src=2, group=g)
mine = None
for i in range(0, world, 2):
    g = dist.new_group([i, i + 1])
    if rank in (i, i + 1):
        mine = g
t = torch.ones(1).cuda()
dist.all_reduce(t, group=mine)
if rank < 2:
    g = dist.new_group([0, 1], use_local_synchronization=True)
t = torch.zeros(2).cuda()
if rank > 0:
    dist.recv(t, src=rank - 1)
t = t + 1
if rank < world - 1:
    dist.send(t, dst=rank + 1)
t = torch.zeros(2).cuda()
u = torch.ones(2).cuda()
if rank % 2 == 0:
    dist.send(u, (rank + 1) % world)
    dist.recv(t, (rank - 1) % world)
else:
    dist.recv(t, (rank - 1) % world)
    dist.send(u, (rank + 1) % world)
t = torch.zeros(2).cuda()
q = dist.isend(torch.ones(2).cuda(), (rank + 1) % world)
dist.recv(t, (rank - 1) % world)
q.wait()
