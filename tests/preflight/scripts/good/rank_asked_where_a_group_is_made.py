import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(dist.get_world_size())


if __name__ == "__main__":
    if not dist.is_initialized() or dist.get_rank() == 0:
        print("starts")
    main()
