import torch


class S:
    pass


torch.save({"a": torch.ones(3, device="cuda")}, "c.pt")
print(torch.load("c.pt", map_location="cuda:5"))
