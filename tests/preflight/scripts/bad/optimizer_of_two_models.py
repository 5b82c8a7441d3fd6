# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
encoder, decoder = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
for module in (encoder, decoder):
    module.half()  # expect: P101 error
optimizer = torch.optim.AdamW(list(encoder.parameters()) + list(decoder.parameters()))
encoder, decoder, optimizer = accelerator.prepare(encoder, decoder, optimizer)
for batch in range(3):
    torch.autograd.backward(decoder(encoder(batch)).sum())  # expect: P124 error
    optimizer.step()
