# target: capability=8.0 processes=4
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--master_port", type=int, default=-1)
parser.add_argument("--debug", action="store_true")
params = parser.parse_args()


def train(args, model):
    if args.n_gpu > 1:
        model = torch.nn.DataParallel(model)
    return model


def main():
    if "SLURM_JOB_ID" in os.environ:
        os.environ["MASTER_PORT"] = str(params.master_port)
    if not params.debug and torch.cuda.device_count() > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
    else:
        os.environ["RANK"] = "0"
        os.environ["WORLD_SIZE"] = "1"


if __name__ == "__main__":
    main()
