import os, argparse
p = argparse.ArgumentParser()
p.add_argument("--gpu", type=str, default="0,1")
args = p.parse_args()
os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu  # expect: D203 warning
import torch
