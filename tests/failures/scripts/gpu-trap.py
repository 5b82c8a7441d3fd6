import cupy
import torch

x = torch.zeros(4, device="cuda")
cupy.RawKernel(r'extern "C" __global__ void f(float* p){ asm("trap;"); }', "f")(
    (1,), (1,), (cupy.zeros(4, "f"),)
)
print(x.sum().item())
