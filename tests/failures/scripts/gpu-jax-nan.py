import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)


@jax.jit
def update(w, x):
    return w - 0.5 * jax.grad(lambda w: jnp.sqrt(jnp.sum((w * x) ** 2)))(w)


w = jnp.ones(4)
for step in range(6):
    w = update(w, jnp.ones(4) if step < 3 else jnp.zeros(4))
    print("step", step, "norm", float(jnp.linalg.norm(w)), flush=True)
