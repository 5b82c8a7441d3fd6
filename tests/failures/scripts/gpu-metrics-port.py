from prometheus_client import start_http_server
import socket
s = socket.socket(); s.bind(("0.0.0.0", 0)); s.listen(); port = s.getsockname()[1]
print("exporting metrics on", port); start_http_server(port); print("training")
