import argparse, yaml, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def load_config(path):
    return yaml.load(Path(path).read_text(), Loader=yaml.FullLoader)
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="conf/base.yml")
    opts = ap.parse_args()
    cfg = load_config(opts.config)
    model = AutoModelForCausalLM.from_pretrained(cfg["name"], torch_dtype=cfg["dtype"])  # expect: P101 error
    t = Trainer(model=model, args=TrainingArguments(**cfg["training"]))
    t.train()
main()
