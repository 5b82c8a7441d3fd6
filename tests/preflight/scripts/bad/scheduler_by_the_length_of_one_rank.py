"""The length of a loader behind prepare() is that of one rank."""

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_scheduler
from torch.utils.data import DataLoader

ds = [{"input_ids": [number]} for number in range(1000)]


def main():
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    train_dataloader = DataLoader(ds, shuffle=True, batch_size=8)
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)
    num_training_steps = 3 * len(train_dataloader)
    lr_scheduler = get_scheduler(  # expect: R414 warning
        "cosine", optimizer=optimizer, num_warmup_steps=100, num_training_steps=num_training_steps
    )
    lr_scheduler = accelerator.prepare(lr_scheduler)
    for epoch in range(3):
        for batch in train_dataloader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()


main()
