# target: transformers=4.57
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, Trainer, TrainingArguments

model = get_peft_model(AutoModel.from_pretrained("m", dtype="float32"), LoraConfig())
args = TrainingArguments("o", gradient_checkpointing=True)  # expect: P125 warning
Trainer(model, args).train()
