# target: capability=8.0 processes=8
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int)
def work(args, ngpus):
    if args.gpu is None and ngpus == 1:
        args.gpu = 0
    torch.cuda.set_device(args.gpu)
    model = torch.nn.Linear(2, 2).cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(2, 2).cuda(args.gpu)).sum().backward(); optimizer.step()
work(parser.parse_args(), torch.cuda.device_count())
