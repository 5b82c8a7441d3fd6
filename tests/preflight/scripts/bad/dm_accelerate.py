import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
def main():
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained("x", device_map="balanced")  # expect: D204 warning
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, opt = accelerator.prepare(model, opt)
    for batch in get_loader():
        loss = model(**batch).loss
        accelerator.backward(loss)
        opt.step()
if __name__ == "__main__": main()
