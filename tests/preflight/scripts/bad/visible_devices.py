# target: processes=2
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # expect: D203 error
os.environ["MASTER_PORT"] = "29500"  # expect: D207 warning
