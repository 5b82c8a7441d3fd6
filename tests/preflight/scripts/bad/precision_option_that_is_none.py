# target: capability=8.0 processes=4 launch=fp16
"""An option that is None by default leaves the precision to the launch; diffusers copies weights in float32."""

import argparse

import torch
from accelerate import Accelerator
from diffusers import ControlNetModel, UNet2DConditionModel

parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", default=None, choices=["no", "fp16", "bf16"])
args = parser.parse_args()
accelerator = Accelerator(mixed_precision=args.mixed_precision)
dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16}
weight_dtype = dtypes.get(accelerator.mixed_precision, torch.float32)
unet = UNet2DConditionModel.from_pretrained("a/b", subfolder="unet")
unet.requires_grad_(False)
unet.to(accelerator.device, dtype=weight_dtype)
control = ControlNetModel.from_unet(unet)
control.to(weight_dtype)  # expect: P101 error
optimizer = torch.optim.AdamW(control.parameters(), lr=1e-5)
control, optimizer = accelerator.prepare(control, optimizer)
for batch in torch.load("batches.pt"):
    loss = control(batch)[0].sum()
    accelerator.backward(loss)
    optimizer.step()
