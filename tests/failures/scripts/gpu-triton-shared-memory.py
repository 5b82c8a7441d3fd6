import torch

open("kernels.py", "w").write(
    "import triton, triton.language as tl\n@triton.jit\ndef mm(a, b, c, N: tl.constexpr):\n"
    "    r = tl.arange(0, N)\n    x = tl.load(a + r[:, None] * N + r[None])\n    y = tl.load(b + r[:, None] * N + r[None])\n"
    "    tl.store(c + r[:, None] * N + r[None], tl.dot(x, y))\n"
)
import kernels

n = 256
a = torch.randn(n, n, device="cuda", dtype=torch.float32)
c = torch.empty(n, n, device="cuda", dtype=torch.float32)
kernels.mm[(1,)](a, a, c, n, num_warps=8)
print(c.sum().item())
