# target: capability=8.0 processes=2
from trl import SFTConfig, SFTTrainer, ScriptArguments, ModelConfig, TrlParser
from transformers import AutoModelForCausalLM, AutoTokenizer
from datasets import load_dataset
import torch


def resolve_dtype(name):
    match name:
        case "bf16" | "bfloat16":
            return torch.bfloat16
        case "fp16" | "half":
            return torch.float16
        case _:
            return torch.float32


def main():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=resolve_dtype("half"))  # expect: P101 error
    ds = load_dataset("trl-lib/Capybara", split="train")
    cfg = SFTConfig("out", fp16=True, bf16=False, max_length=1024, gradient_checkpointing=True)
    trainer = SFTTrainer(model, args=cfg, train_dataset=ds)
    trainer.train()


if __name__ == "__main__":
    main()
