from accelerate import Accelerator
from transformers import AutoModel, Trainer, TrainingArguments

accelerator = Accelerator()
trainer = Trainer(model=AutoModel.from_pretrained("m"), args=TrainingArguments("out"))
trainer.train()
if trainer.is_world_process_zero():
    trainer.evaluate()  # expect: R404 warning


@accelerator.on_main_process
def report(values):
    print(accelerator.gather(values))  # expect: R404 warning


report([1])
