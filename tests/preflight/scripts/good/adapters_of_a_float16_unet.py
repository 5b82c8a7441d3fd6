# target: capability=8.9 processes=2
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from diffusers.training_utils import cast_training_params
from peft import LoraConfig

accelerator = Accelerator(mixed_precision="fp16")
unet = UNet2DConditionModel.from_pretrained("stable-diffusion", subfolder="unet")
unet.requires_grad_(False)
unet.to(accelerator.device, dtype=torch.float16)
unet.add_adapter(LoraConfig(r=4))
cast_training_params(unet, dtype=torch.float32)
trained = [parameter for parameter in unet.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained)
unet, optimizer = accelerator.prepare(unet, optimizer)
for step in range(3):
    accelerator.backward(unet(step).sum())
    optimizer.step()
