# target: processes=4 capability=8.0
import argparse, torch
from accelerate import Accelerator
import torchvision

def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mixed_precision", type=str, default="no", choices=["no", "fp16", "bf16"])
    args = p.parse_args()
    acc = Accelerator(mixed_precision=args.mixed_precision)
    model = torchvision.models.resnet18()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.utils.data.DataLoader(torchvision.datasets.CIFAR10("d"), 32)
    model, opt, data = acc.prepare(model, opt, data)
    for x, y in data:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()  # expect: P124 warning
        opt.step()
        opt.zero_grad()

main()
