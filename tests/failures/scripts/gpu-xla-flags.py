import jax.numpy as jnp

print((jnp.ones((16, 16)) @ jnp.ones((16, 16))).sum())
