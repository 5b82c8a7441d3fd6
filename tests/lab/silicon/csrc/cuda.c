/* The part of libcuda that a process calls before it makes a context. CUresult is an int, as nvmlReturn_t. */
#include "silicon.h"

#include <stdio.h>
#include <string.h>

#define CUDA __attribute__((visibility("default"))) int

enum { CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_NO_DEVICE = 100 };

static const struct {
    int code;
    const char *name, *words;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUDA cuInit(unsigned flags)
{
    (void)flags;
    int said = enter_init("cuInit"); /* NVML's words for "no driver" are this library's for "no GPU" */
    return said == NVML_ERROR_DRIVER_NOT_LOADED || device_count() == 0 ? CUDA_ERROR_NO_DEVICE : said;
}

/* "hidden_from_cuda" on a GPU: this user may not open its device file, so CUDA leaves it out. */
static struct device *visible(int wanted)
{
    for (int i = 0; i < device_count(); i++)
        if (lookup(&device_at(i)->values, "hidden_from_cuda") == NULL && wanted-- == 0)
            return device_at(i);
    return NULL;
}

CUDA cuDeviceGetCount(int *count)
{
    for (*count = 0; visible(*count) != NULL;)
        ++*count;
    return 0;
}

CUDA cuDeviceGet(int *out, int index)
{
    *out = index;
    return visible(index) == NULL ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUDA cuDeviceGetUuid(unsigned char out[16], int index)
{
    struct device *device = visible(index);
    const char *text = device == NULL ? NULL : lookup(&device->values, "uuid");
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    text += 4; /* "GPU-" */
    for (int at = 0; at < 16; at++) {
        text += *text == '-';
        if (sscanf(text, "%2hhx", &out[at]) != 1)
            return CUDA_ERROR_INVALID_VALUE;
        text += 2;
    }
    return 0;
}

CUDA cuGetErrorName(int code, const char **out)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return *out = errors[i].name, 0;
    return CUDA_ERROR_INVALID_VALUE;
}

CUDA cuGetErrorString(int code, const char **out)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return *out = errors[i].words, 0;
    return CUDA_ERROR_INVALID_VALUE;
}
