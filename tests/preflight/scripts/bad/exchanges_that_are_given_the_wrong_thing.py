# target: capability=8.0 processes=4 args=
"""What exchanges refuse, what they give, who makes a group, and who sends first."""

import torch
import torch.distributed as dist


def ring(sent):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(sent)
    dist.recv(received, src=(rank - 1) % world)  # expect: R411 warning
    dist.send(sent, dst=(rank + 1) % world)
    return received


def swap(sent):
    received = torch.empty_like(sent)
    if dist.get_rank() == 0:
        dist.recv(received, src=1)  # expect: R411 warning
        dist.send(sent, dst=1)
    else:
        dist.recv(received, src=0)
        dist.send(sent, dst=0)
    return received


def group_of(ranks):
    if dist.get_rank() in ranks:
        return dist.new_group(ranks)  # expect: R411 warning
    return None


def start_copy(weights):
    dist.all_reduce(weights, async_op=True)  # expect: R411 warning
    return weights.sum()


def main():
    dist.init_process_group("nccl", device_id=torch.device("cuda"))
    rank, world = dist.get_rank(), dist.get_world_size()
    loss = torch.ones(1).cuda()
    mean = dist.all_reduce(loss) / world  # expect: R411 warning
    total = dist.all_reduce(loss)  # expect: R411 warning
    parts = dist.all_gather_single(torch.zeros(world).cuda(), loss) / world  # expect: R411 warning
    print(mean, total.item())
    lists = [torch.zeros(1).cuda() for _ in range(world)]
    dist.gather(loss, gather_list=lists, dst=0)  # expect: R411 warning
    same = [torch.zeros_like(loss)] * world
    dist.all_gather(same, loss)  # expect: R411 warning
    dist.broadcast(loss, src=rank)  # expect: R411 warning
    generators = dist.new_group([2, 3])
    if rank in (2, 3):
        dist.broadcast(loss, src=0, group=generators)  # expect: R411 warning
    ring(loss)
    swap(loss)
    group_of([0, 1])
    start_copy(loss)


main()
