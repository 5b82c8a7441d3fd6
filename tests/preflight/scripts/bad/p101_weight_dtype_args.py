import torch, argparse
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="fp16", choices=["no", "fp16", "bf16"])
    return parser.parse_args()
def main(args):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    unet = UNet2DConditionModel.from_pretrained("x")
    weight_dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        weight_dtype = torch.float16
    unet.to(accelerator.device, dtype=weight_dtype)  # expect: P101 error
    params = list(filter(lambda p: p.requires_grad, unet.parameters()))
    optimizer = torch.optim.AdamW(params, lr=1e-5)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    for step, batch in enumerate(get_loader()):
        loss = unet(batch).sample.mean()
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(params, 1.0)
        optimizer.step()
if __name__ == "__main__":
    main(parse_args())
