import os, sys
import torch.multiprocessing as mp
def work(rank):
    if rank == 1:
        os.abort()
    import time; time.sleep(30)
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
