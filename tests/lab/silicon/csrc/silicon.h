/* The simulated NVML: shared declarations.
 *
 * State lives in a directory: $SILICON_STATE, else /run/gpulaunch-silicon.
 *   state       sections and key=value lines, written by tests/lab/silicon/state.py
 *   registry/   one file per live compute process, held by flock (tests/lab/silicon/compute.py)
 *
 * A key that is absent means "not supported" on that GPU; a value "!N" means that reading it returns
 * NVML error N. Rules "call.FUNCTION=delay 250 return 15" or "hang" bend single functions.
 */
#ifndef SILICON_H
#define SILICON_H

#include <stddef.h>

typedef int nvmlReturn_t; /* an enum in nvml.h: same size and passing */

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

#define MAX_DEVICES 256 /* GPUs and MIG devices together */
#define MIB (1024ULL * 1024ULL)
#define NO_VALUE_ULL 0xFFFFFFFFFFFFFFFFULL
#define NO_INSTANCE 0xFFFFFFFFU

#define API __attribute__((visibility("default"))) nvmlReturn_t

struct entry {
    char *key;
    char *value;
};

struct section {
    struct entry *entries;
    int count;
};

struct device {
    struct section values;
    int index;             /* among GPUs, or among the MIG devices of its parent */
    struct device *parent; /* NULL for a whole GPU */
};

typedef struct device *nvmlDevice_t;

/* state.c */
nvmlReturn_t state_load(void);
const char *state_directory(void);
struct section *state_system(void);
int device_count(void);
struct device *device_at(int index);
struct device *mig_at(struct device *gpu, int index);
int mig_count(struct device *gpu);
struct device *device_checked(nvmlDevice_t handle);
const char *lookup(const struct section *section, const char *key);
nvmlReturn_t text_of(const struct section *section, const char *key, const char **out);
nvmlReturn_t number_of(const struct section *section, const char *key, long long *out);
nvmlReturn_t copy_text(const struct section *section, const char *key, char *buffer, unsigned length);

/* rules.c: what may happen to a call before it answers */
void init_count_add(int by);
nvmlReturn_t enter_system(const char *function);
nvmlReturn_t enter_init(const char *function);
nvmlReturn_t enter_handle(const char *function, struct device *device);
nvmlReturn_t enter_device(const char *function, nvmlDevice_t handle);

/* processes.c */
#define MAX_PROCESSES 512
struct process {
    unsigned pid;
    char kind[8]; /* "C", "G", "C+G", "M", "M+C" as nvidia-smi prints them */
    unsigned long long bytes; /* NO_VALUE_ULL when the driver does not say */
    unsigned gpu_instance;
    unsigned compute_instance;
    int live; /* from the registry, not from the profile */
};
int processes_on(struct device *device, char kind, struct process *out, int capacity);
unsigned long long live_bytes(struct device *device);
const char *process_name(unsigned pid);

#define ENTER_SYSTEM                                                                                         \
    do {                                                                                                     \
        nvmlReturn_t entered = enter_system(__func__);                                                       \
        if (entered != NVML_SUCCESS)                                                                         \
            return entered;                                                                                  \
    } while (0)

#define ENTER_DEVICE(handle)                                                                                 \
    do {                                                                                                     \
        nvmlReturn_t entered = enter_device(__func__, handle);                                               \
        if (entered != NVML_SUCCESS)                                                                         \
            return entered;                                                                                  \
    } while (0)

#define READ_NUMBER(device, key, variable)                                                                   \
    do {                                                                                                     \
        nvmlReturn_t read = number_of(&(device)->values, key, &(variable));                                  \
        if (read != NVML_SUCCESS)                                                                            \
            return read;                                                                                     \
    } while (0)

#define REQUIRE(pointer)                                                                                     \
    do {                                                                                                     \
        if ((pointer) == NULL)                                                                               \
            return NVML_ERROR_INVALID_ARGUMENT;                                                              \
    } while (0)

#endif
