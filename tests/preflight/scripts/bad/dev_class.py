import torch
class Trainer:
    def __init__(self, model, gpu_id: int = 0):
        self.gpu_id = gpu_id
        self.model = model.to(f"cuda:{gpu_id}")  # expect: D201 warning
    def run(self):
        opt = torch.optim.SGD(self.model.parameters(), 0.1)
        opt.step()
Trainer(torch.nn.Linear(1, 1)).run()
