# target: processes=4 capability=8.0
import hydra, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16 if cfg.train.half else torch.float32)  # expect: P101 error
    args = TrainingArguments("out", bf16=cfg.train.precision == "bf16", fp16=cfg.train.precision == "fp32")
    trainer = Trainer(model, args, train_dataset=None)
    trainer.train()

if __name__ == "__main__":
    main()
