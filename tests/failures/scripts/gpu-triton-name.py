import torch

open("kernels.py", "w").write(
    "import triton, triton.language as tl\n@triton.jit\ndef add(a, b, n, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    x = tl.load(a + i, mask=i < n)\n    tl.store(b + i, x + undefined_bias, mask=i < n)\n"
)
import kernels

a = torch.ones(1000, device="cuda")
kernels.add[(4,)](a, torch.empty_like(a), 1000, 256)
