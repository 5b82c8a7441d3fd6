# target: capability=8.0 processes=1
import torch

models = {"g": torch.nn.Linear(4, 4).cuda(), "d": torch.nn.Linear(4, 1).cuda()}
optimizers = {name: torch.optim.Adam(model.parameters()) for name, model in models.items()}
scalers = {name: torch.amp.GradScaler("cuda") for name in models}
scalers["d"].scale(models["d"](models["g"](torch.ones(4, 4).cuda())).mean()).backward()
torch.nn.utils.clip_grad_norm_(models["d"].parameters(), 1.0)  # expect: P116 warning
scalers["d"].step(optimizers["d"])
scalers["d"].update()
