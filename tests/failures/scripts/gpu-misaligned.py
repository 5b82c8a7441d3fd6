import cupy

cupy.RawKernel(r'extern "C" __global__ void f(char* p){ *(double*)(p+1) = 1; }', "f")(
    (1,), (1,), (cupy.zeros(64, "f"),)
)
cupy.cuda.Device().synchronize()
