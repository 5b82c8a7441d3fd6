import jax, jax.numpy as jnp
print("jax", jax.__version__); print(jnp.ones(4).sum(), jax.devices())
