import torch
S = ["RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'", "Segmentation fault (core dumped)"]
for s in range(30):
    print(f"step {s} train/loss {2/(s+1):.4f} lr 3.0e-04")
    if s % 10 == 9: print(f"--- sample at step {s} (prompt: what does this log mean?) ---\n{S[s // 10]}\n--- end of sample ---")
print("eval/accuracy 0.91", torch.cuda.is_available()); print("Training done.")
