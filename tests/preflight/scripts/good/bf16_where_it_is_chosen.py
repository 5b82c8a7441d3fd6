# target: processes=4 capability=7.5
import hydra, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

@hydra.main(version_base=None, config_path="conf", config_name="train")
def main(cfg):
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float32)
    if cfg.precision == "bf16":
        args = TrainingArguments("out", bf16=True)
    else:
        args = TrainingArguments("out", fp16=True)
    trainer = Trainer(model, args, train_dataset=None)
    trainer.train()

if __name__ == "__main__":
    main()
