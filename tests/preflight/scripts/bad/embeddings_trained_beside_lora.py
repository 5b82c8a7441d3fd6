# target: transformers=4.50.0
import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling,
                          Trainer, TrainingArguments)
def main():
    tok = AutoTokenizer.from_pretrained("x")
    model = AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.float16, low_cpu_mem_usage=True)  # expect: P104 error
    peft_config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, modules_to_save=["embed_tokens"])  # expect: P104 info
    model = get_peft_model(model, peft_config)
    model.print_trainable_parameters()
    trainer = Trainer(model=model, args=TrainingArguments(output_dir="o", fp16=True),
                      data_collator=DataCollatorForLanguageModeling(tok, mlm=False),
                      tokenizer=tok)  # expect: V301 warning
    trainer.train()
main()
