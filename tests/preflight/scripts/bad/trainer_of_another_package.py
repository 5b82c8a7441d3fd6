from liger_kernel.transformers.trainer import LigerORPOTrainer
from llava.train.llava_trainer import LLaVATrainer
from mylib.base import BaseTrainer
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import ORPOConfig


class OwnTrainer(BaseTrainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return super().compute_loss(model, inputs)


def load(name):
    return AutoModelForCausalLM.from_pretrained(name, device_map="auto")  # expect: D204 warning


LigerORPOTrainer(model=load("a"), args=ORPOConfig(output_dir="o")).train()
other = AutoModelForCausalLM.from_pretrained("b", device_map="auto")  # expect: D204 warning
LLaVATrainer(model=other, args=TrainingArguments(output_dir="o")).train()
third = AutoModelForCausalLM.from_pretrained("c", device_map="auto")  # expect: D204 warning
trainer = OwnTrainer(third, TrainingArguments(output_dir="o"), train_dataset=None)
trainer.train()
