# target: capability=8.0 launch=fp16
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel

accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("x")
optimizers = {p: torch.optim.AdamW([p]) for p in unet.parameters()}
unet, loader = accelerator.prepare(unet, [1, 2])
for batch in loader:
    loss = unet(batch)
    loss.backward()  # expect: P124 warning
    for optimizer in optimizers.values():
        optimizer.step()
