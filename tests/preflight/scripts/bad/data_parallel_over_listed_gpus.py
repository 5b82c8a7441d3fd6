import torch, argparse
p = argparse.ArgumentParser(); p.add_argument("--gpus", default="0,1,2,3")  # expect: D201 warning
a = p.parse_args()
ids = [int(i) for i in a.gpus.split(",")]
net = torch.nn.Linear(1, 1).cuda(ids[0])
net = torch.nn.DataParallel(net, device_ids=ids)  # expect: D206 warning
