import torch

square = torch.cuda.jiterator._create_jit_fn("template <typename T> T gelu_fast(T x) { return x * sigmoid(x); }")
print(square(torch.randn(8, device="cuda")))
