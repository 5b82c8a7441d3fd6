import torch
import triton
import triton.language as tl


@triton.jit
def gather(table, index, out, rows, n: tl.constexpr):
    i = tl.arange(0, n)
    k = tl.load(index + i)
    tl.device_assert(k < rows, "index beyond the table")
    tl.store(out + i, tl.load(table + k))


table = torch.randn(100, device="cuda")
index = torch.randint(0, 100, (64,), device="cuda")
index[7] = 100
out = torch.empty(64, device="cuda")
gather[(1,)](table, index, out, 100, 64)
torch.cuda.synchronize()
print(out.sum().item())
