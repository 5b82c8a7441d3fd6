# target: capability=8.0 processes=2
import sys
import torch
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments
from datasets import load_from_disk


class Recipes:
    @staticmethod
    def small(): return {"model": "t5-small", "weights": "half", "amp": "fp16"}

    @staticmethod
    def large(): return {"model": "t5-large", "weights": "single", "amp": "bf16"}


WEIGHTS = {"single": torch.float, "half": torch.half, "brain": torch.bfloat16}


def run(recipe="small"):
    r = getattr(Recipes, recipe)()
    model = AutoModelForSeq2SeqLM.from_pretrained(r["model"], torch_dtype=WEIGHTS[r["weights"]])  # expect: P101 error
    args = Seq2SeqTrainingArguments("o", **{r["amp"]: True})
    Seq2SeqTrainer(model=model, args=args, train_dataset=load_from_disk("d")).train()


if __name__ == "__main__":
    run(*sys.argv[1:])
