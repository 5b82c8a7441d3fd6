import hydra, torch
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
@hydra.main(config_path="conf", config_name="config", version_base=None)
def main(cfg: DictConfig):
    model = AutoModelForCausalLM.from_pretrained(cfg.model.name, torch_dtype=torch.float16)  # expect: P101 error
    Trainer(model=model, args=TrainingArguments("o", fp16=cfg.trainer.fp16)).train()
if __name__ == "__main__":
    main()
