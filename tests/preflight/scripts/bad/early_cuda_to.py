import torch
from accelerate import Accelerator
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.zeros(1, device=device)  # expect: D202 warning
def main():
    accelerator = Accelerator()
main()
