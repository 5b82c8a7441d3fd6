import argparse
from accelerate import Accelerator
p = argparse.ArgumentParser()
p.add_argument("--mixed_precision", default="bf16")  # expect: P131 info
a = p.parse_args()
acc = Accelerator(mixed_precision=a.mixed_precision)  # expect: P131 info
