import argparse, torch
from accelerate import Accelerator
from transformers import AutoModel
def str2dtype(s): return getattr(torch, s)
def add_model_args(parser):
    g = parser.add_argument_group("model")
    g.add_argument("--weights-dtype", dest="dtype", type=str2dtype, default=torch.float16)
    return parser
def main():
    parser = add_model_args(argparse.ArgumentParser())
    args, _ = parser.parse_known_args()
    acc = Accelerator(mixed_precision="fp16")
    m = AutoModel.from_pretrained("x", torch_dtype=args.dtype)  # expect: P101 error
    o = torch.optim.AdamW([{"params": m.parameters(), "lr": 1e-4}])
    m, o = acc.prepare(m, o)
    for b in get_loader():
        with acc.accumulate(m):
            l = m(**b).loss
            acc.backward(l)
            o.step()
main()
