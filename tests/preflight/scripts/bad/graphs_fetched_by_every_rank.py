# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from ogb.nodeproppred import PygNodePropPredDataset
from torch_geometric.datasets import FakeDataset, Reddit

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
toy = FakeDataset(num_graphs=4)
graph = Reddit("data/reddit")[0]  # expect: R405 warning
products = PygNodePropPredDataset("ogbn-products", root="data/ogb")  # expect: R405 warning
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(602, 41).cuda())
model(graph.x.cuda()).sum().backward()
