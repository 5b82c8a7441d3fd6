import torch, torch._dynamo
torch._dynamo.config.error_on_recompile = True
net = torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()).cuda(), dynamic=False)
print("steady-state check: no recompilation allowed after step 0")
for step, n in enumerate([32, 32, 32, 17]):
    out = net(torch.randn(n, 16, device="cuda"))
    print("step", step, tuple(out.shape), flush=True)
