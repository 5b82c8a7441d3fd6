# target: processes=2 launch=fp16
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from diffusers.training_utils import cast_training_params
from peft import LoraConfig

accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("m")
unet.requires_grad_(False)
unet.to(accelerator.device, dtype=torch.float16)
unet.add_adapter(LoraConfig(r=4))
if accelerator.mixed_precision == "fp16":
    cast_training_params(unet, dtype=torch.float32)
parameters = list(filter(lambda p: p.requires_grad, unet.parameters()))
optimizer = torch.optim.AdamW(parameters)
unet, optimizer = accelerator.prepare(unet, optimizer)
for batch in range(3):
    accelerator.backward(unet(batch).sum())
    optimizer.step()
