# target: capability=8.9 processes=2
import fire
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

device = "cuda" if torch.cuda.is_available() else "cpu"


def train(out="out"):
    kwargs = {"torch_dtype": torch.float16 if device == "cuda" else torch.float32}  # expect: P133 warning
    model = get_peft_model(AutoModelForCausalLM.from_pretrained("m", **kwargs), LoraConfig(r=8))
    args = TrainingArguments(
        out,
        fp16=torch.cuda.is_available(),  # expect: P126 info
    )
    Trainer(model=model, args=args, train_dataset=[]).train()


def test(out="out"):
    return AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float16).generate()


if __name__ == "__main__":
    fire.Fire({"train": train, "test": test})
