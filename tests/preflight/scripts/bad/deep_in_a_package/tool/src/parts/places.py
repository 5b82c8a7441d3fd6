import os


def settle():
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # expect: D203 error
