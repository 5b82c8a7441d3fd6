import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
from torch.utils.data import DataLoader
from mydata import ds


def main(out="ckpt"):
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(ds, shuffle=True, batch_size=8)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    for batch in loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
    if accelerator.is_main_process:
        accelerator.unwrap_model(model).save_pretrained(out)
    accelerator.wait_for_everyone()
    best = AutoModelForCausalLM.from_pretrained(out)


main()
