import torch
from torch.utils.cpp_extension import load_inline

print("building fused_ops", flush=True)
ops = load_inline("fused_ops", cpp_sources="#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x) { return x * 2; }", functions=["twice"])
print(ops.twice(torch.ones(4)).sum().item())
