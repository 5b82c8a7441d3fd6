import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

q = torch.randn(1, 4, 32, 64, device="cuda")
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    print(torch.nn.functional.scaled_dot_product_attention(q, q, q).sum())
