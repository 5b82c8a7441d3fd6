"""What several tests of the field notes need."""

import pytest

from tests.field_notes.ranks import run_rank


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A causal language model of a few hundred weights, written without importing transformers here."""
    place = tmp_path_factory.mktemp("model")
    program = (
        "import torch; from transformers import LlamaConfig, LlamaForCausalLM; torch.manual_seed(0)\n"
        "c = LlamaConfig(vocab_size=8, hidden_size=16, intermediate_size=16, num_hidden_layers=1,"
        " num_attention_heads=2, max_position_embeddings=16)\n"
        f"LlamaForCausalLM(c).save_pretrained({str(place / 'tiny')!r})\n"
    )
    done = run_rank(place, program)
    assert done.code == 0, done.log
    return str(place / "tiny")
