# target: capability=8.0 transformers=5.1
import yaml
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
config = yaml.safe_load(open("config.yaml"))
if config["low_resource"]:
    model = AutoModelForCausalLM.from_pretrained("x/y", load_in_8bit=True)  # expect: V301 warning
else:
    model = AutoModelForCausalLM.from_pretrained("x/y")
Trainer(model=model, args=TrainingArguments("out")).train()
