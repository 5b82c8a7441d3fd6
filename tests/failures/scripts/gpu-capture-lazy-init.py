import torch
net = torch.nn.Linear(32, 32).cuda()
opt = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)
static = torch.randn(16, 32, device="cuda")
def train_step():
    opt.zero_grad(set_to_none=True)
    loss = net(static).pow(2).mean(); loss.backward()
    if torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0).cpu() > 100: print("spike")
    opt.step(); return loss
s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for _ in range(3): train_step()
torch.cuda.current_stream().wait_stream(s)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g): loss = train_step()
for i in range(10): g.replay(); print(i, loss.item())
