# target: processes=4 capability=7.5
from dataclasses import dataclass, field
import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch

@dataclass
class TrainConfig:
    precision: str = "fp32"
    lr: float = 1e-4

ConfigStore.instance().store(name="train", node=TrainConfig)

@hydra.main(version_base=None, config_path=None, config_name="train")
def main(cfg: DictConfig) -> None:
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float32)
    match cfg.precision:
        case "bf16":
            args = TrainingArguments("out", bf16=True)
        case "fp16":
            args = TrainingArguments("out", fp16=True)
        case _:
            args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=None)
    trainer.train()

if __name__ == "__main__":
    main()
