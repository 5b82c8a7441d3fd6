import torch

open("tk2.py", "w").write(
    "import triton, triton.language as tl\n@triton.jit\ndef f(a, N):\n    tl.store(a + N * tl.program_id(0).to(tl.int64) , 1.0)\n"
)
import tk2

a = torch.randn(512, device="cuda")
tk2.f[(100,)](a, 1 << 34)
torch.cuda.synchronize()
