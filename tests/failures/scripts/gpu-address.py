import cupy

cupy.RawKernel(r'extern "C" __global__ void f(float* p){ p[threadIdx.x + (1ull<<38)] = 1; }', "f")(
    (1,), (32,), (cupy.zeros(32, "f"),)
)
cupy.cuda.Device().synchronize()
