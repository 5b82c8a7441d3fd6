import torch.distributed as dist


def main_rank_only(function):
    def wrapper(*args, **kwargs):
        if dist.get_rank() == 0:
            return function(*args, **kwargs)

    return wrapper
