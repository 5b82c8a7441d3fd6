import jax.numpy as jnp
import torch

features = jnp.ones((1024, 1024)) @ jnp.ones((1024, 1024))
print("features", float(features.sum()), flush=True)
model = torch.nn.Linear(16384, 16384, device="cuda")
for step in range(100):
    x = torch.randn(16384 * 8, 16384, device="cuda")
    loss = model(x).pow(2).mean()
    loss.backward()
    print("step", step, loss.item(), flush=True)
