# target: capability=8.0 processes=4
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser


def main(training, model):
    training.model_init_kwargs = {
        "attn_implementation": model.attn_implementation,
        "device_map": "auto",  # expect: D204 error
    }
    GRPOTrainer(model=model.model_name_or_path, reward_funcs=len, args=training, train_dataset=[]).train()


main(*TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config())
