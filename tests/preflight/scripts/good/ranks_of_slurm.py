import os
import subprocess

import torch


def main(port=10001):
    if "SLURM_JOB_ID" in os.environ:
        rank = int(os.environ["SLURM_LOCALID"])
        hosts = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]])
        os.environ["MASTER_ADDR"] = hosts.split()[0].decode("utf-8")
        os.environ["MASTER_PORT"] = str(port)
        os.environ["RANK"] = os.environ["SLURM_PROCID"]
    else:
        rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")


main()
