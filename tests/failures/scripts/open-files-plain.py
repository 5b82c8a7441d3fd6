kept = [open(__file__) for _ in range(200)]
