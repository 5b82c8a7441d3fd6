# target: processes=2
from torch import nn

model = nn.DataParallel(nn.Linear(2, 2))  # expect: D206 error
