# target: capability=7.5 processes=2
"""A module that is first imported on a path that ends is there on the next one."""

import torch


def weights(kind):
    if kind == "none":
        from late import nothing

        return nothing()
    from late import half

    return half()


for kind in load_kinds():
    model = weights(kind)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in range(3):
        model(batch).sum().backward()
        optimizer.step()
