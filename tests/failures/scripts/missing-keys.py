import torch
torch.nn.Linear(8, 2).load_state_dict({})
