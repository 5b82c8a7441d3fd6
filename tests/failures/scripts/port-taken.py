import socket, os
holder = socket.socket(); holder.bind(("", 0)); holder.listen()
port = holder.getsockname()[1]
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo")
