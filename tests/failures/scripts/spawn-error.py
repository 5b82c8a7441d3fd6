import torch.multiprocessing as mp
def work(rank):
    raise ValueError(f"bad shard {rank}")
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
