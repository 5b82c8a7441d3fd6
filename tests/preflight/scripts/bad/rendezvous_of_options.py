# target: capability=8.0 processes=4
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--addr", default="127.0.0.1")
parser.add_argument("--port", default=29501, type=int)
given = vars(parser.parse_args())
torch.distributed.init_process_group("gloo", init_method="tcp://{addr}:{port}".format(**given))  # expect: D207 warning
