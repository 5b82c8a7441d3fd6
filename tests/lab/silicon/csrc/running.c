/* Who runs on a GPU, in the three shapes that drivers have used. */
#include "silicon.h"

#include <stdlib.h>
#include <string.h>

struct process_v1 {
    unsigned pid;
    unsigned long long used;
};

struct process_v2 { /* the third version of the call has the same struct */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static void write_process(const struct process *from, void *out, int at, int version)
{
    if (version == 1) {
        ((struct process_v1 *)out)[at] = (struct process_v1){from->pid, from->bytes};
        return;
    }
    ((struct process_v2 *)out)[at] =
        (struct process_v2){from->pid, from->bytes, from->gpu_instance, from->compute_instance};
}

/* With too little room NVML names the number it wants and says so; with nobody there it succeeds. */
static nvmlReturn_t running(struct device *device, char kind, unsigned *count, void *out, int version)
{
    REQUIRE(count);
    const char *text = NULL;
    nvmlReturn_t told = text_of(&device->values, "processes", &text);
    if (told != NVML_SUCCESS)
        return told;
    struct process *found = calloc(MAX_PROCESSES, sizeof *found);
    REQUIRE(found);
    int total = processes_on(device, kind, found, MAX_PROCESSES);
    unsigned room = *count;
    *count = (unsigned)total;
    int fits = total == 0 || (out != NULL && room >= (unsigned)total);
    for (int i = 0; fits && i < total; i++)
        write_process(&found[i], out, i, version);
    free(found);
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

#define RUNNING(function, kind, version)                                                                     \
    API function(nvmlDevice_t handle, unsigned *count, void *out)                                            \
    {                                                                                                        \
        ENTER_DEVICE(handle);                                                                                \
        return running(handle, kind, count, out, version);                                                   \
    }

RUNNING(nvmlDeviceGetComputeRunningProcesses, 'C', 1)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, 'C', 2)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, 'C', 2)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, 'G', 1)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', 2)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', 2)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, 'M', 1)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', 2)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', 2)

struct process_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

/* An idle GPU has no samples, and NVML calls that Not Found. The load is told of the first process. */
API nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, struct process_sample *out, unsigned *count,
                                    unsigned long long since_us)
{
    ENTER_DEVICE(handle);
    REQUIRE(count);
    long long sm = 0, memory = 0;
    READ_NUMBER(handle, "utilization.gpu", sm);
    READ_NUMBER(handle, "utilization.memory", memory);
    struct process *found = calloc(MAX_PROCESSES, sizeof *found);
    REQUIRE(found);
    int total = sm > 0 ? processes_on(handle, '*', found, MAX_PROCESSES) : 0;
    unsigned pid = total > 0 ? found[0].pid : 0;
    free(found);
    unsigned room = *count;
    *count = total > 0 ? 1 : 0;
    if (total == 0)
        return NVML_ERROR_NOT_FOUND;
    if (out == NULL || room < 1)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    *out = (struct process_sample){pid, since_us + 1, (unsigned)sm, (unsigned)memory, 0, 0};
    return NVML_SUCCESS;
}
