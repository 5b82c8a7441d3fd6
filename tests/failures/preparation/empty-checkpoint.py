open("checkpoint.pt", "w")
