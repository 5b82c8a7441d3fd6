import torch
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
class Config:
    MODEL = "gpt2"
    DTYPE = torch.float16
    DEVICE = torch.device("cuda:0")  # expect: D201 warning
    USE_FP16 = True
def main():
    model = AutoModelForCausalLM.from_pretrained(Config.MODEL, torch_dtype=Config.DTYPE)  # expect: P101 error
    model.to(Config.DEVICE)
    Trainer(model=model, args=TrainingArguments(output_dir="o", fp16=Config.USE_FP16)).train()
if __name__ == "__main__":
    main()
