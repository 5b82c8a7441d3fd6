from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
DEVICE_MAP = "auto"
def load(name):
    return AutoModelForCausalLM.from_pretrained(name, device_map=DEVICE_MAP)  # expect: D204 warning
def main():
    model = load("x")
    Trainer(model=model, args=TrainingArguments("o"), train_dataset=None).train()
main()
