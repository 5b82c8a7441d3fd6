import socket, os
holder = socket.socket(); holder.bind(("", 0)); holder.listen()
port = holder.getsockname()[1]
import subprocess, sys
from accelerate.commands.launch import launch_command_parser, launch_command
args = launch_command_parser().parse_args(["--multi_gpu", "--num_processes", "2", "--main_process_port", str(port), "x.py"])
launch_command(args)
