import asyncio, torch
from transformers import AutoModel, Trainer, TrainingArguments
async def load():
    return AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
async def main():
    m = await load()
    Trainer(m, TrainingArguments("o", fp16=True)).train()
asyncio.run(main())
