# target: processes=4 capability=7.5
from concurrent.futures import ThreadPoolExecutor
from accelerate import Accelerator


def train(rate, precision="no"):
    accelerator = Accelerator(mixed_precision=precision)  # expect: P131 error


with ThreadPoolExecutor(max_workers=1) as pool:
    done = pool.submit(train, 0.1, precision="bf16")
    done.result()
