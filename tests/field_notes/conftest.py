"""What several tests of the field notes need."""

import json

import pytest

WIDTH, WORDS = 16, 8
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A causal language model of two thousand weights as transformers saves one, written without torch."""
    import numpy as np  # noqa: PLC0415 - comes with torch, as the next one does with accelerate
    from safetensors.numpy import save_file  # noqa: PLC0415

    place = tmp_path_factory.mktemp("model")
    (place / "config.json").write_text(json.dumps(CONFIG))
    random = np.random.default_rng(0)
    layer = "model.layers.0."
    attention = [f"{layer}self_attn.{name}_proj.weight" for name in "qkvo"]
    mlp = [f"{layer}mlp.{name}_proj.weight" for name in ("gate", "up", "down")]
    shapes = dict.fromkeys([*attention, *mlp], (WIDTH, WIDTH))
    shapes |= dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), (WORDS, WIDTH))
    weights = {name: random.normal(0.0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    norms = (f"{layer}input_layernorm.weight", f"{layer}post_attention_layernorm.weight", "model.norm.weight")
    weights |= {name: np.ones(WIDTH, np.float32) for name in norms}
    save_file(weights, str(place / "model.safetensors"), metadata={"format": "pt"})
    return str(place)
