import subprocess

open("k.cu", "w").write(
    '#include <cstdio>\n__global__ void f(){}\nint main(){f<<<1,1>>>(); cudaError_t e=cudaDeviceSynchronize(); if(e==0)e=cudaGetLastError(); printf("CUDA error: %s\\n", cudaGetErrorString(e)); return e!=0;}'
)
subprocess.run(["nvcc", "-gencode", "arch=compute_100,code=sm_100", "k.cu", "-o", "k"], check=True)
subprocess.run(["./k"], check=True)
