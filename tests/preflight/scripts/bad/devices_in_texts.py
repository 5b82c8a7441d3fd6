# target: capability=8.0 processes=4
import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device_id", default=0, type=int)
parser.add_argument("--gpus", nargs="+", type=int, default=[2, 3])
args = parser.parse_args()
os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, args.gpus))  # expect: D203 error
os.environ |= {"CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in args.gpus)}  # expect: D203 error
net = torch.nn.Linear(2, 2).to("cuda:{}".format(args.device_id))  # expect: D201 error
net = net.to("cuda:{gpu}".format(gpu=args.device_id))  # expect: D201 error
net = net.to("cuda:%(gpu)d" % {"gpu": args.device_id})  # expect: D201 error
net = net.to("%s:%d" % ("cuda", args.device_id))  # expect: D201 error
optimizer = torch.optim.SGD(net.parameters(), 0.1)
