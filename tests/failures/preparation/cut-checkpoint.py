import torch
torch.save({"w": torch.randn(1000)}, "checkpoint.pt")
data = open("checkpoint.pt", "rb").read()
open("checkpoint.pt", "wb").write(data[: len(data) // 2])
