# target: capability=8.0 processes=2
"""What a library is not given it does not wrap, and features that ranks gather are no gradients."""
import os

import torch
import torch.distributed as dist
from board_of_others import Board, watch_model
from torch import nn


class GatherFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        dist.all_reduce(grad)
        return grad


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = nn.Sequential(nn.ZeroPad2d(1), nn.Linear(8, 8)).cuda()
    board = Board("runs")
    watch_model(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(100):
        features = GatherFeatures.apply(model(torch.randn(4, 6, 6).cuda()))
        features.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # expect: R406 warning
        intersection = features.sum().detach()
        dist.all_reduce(intersection)
        board.write(step, intersection)


main()
