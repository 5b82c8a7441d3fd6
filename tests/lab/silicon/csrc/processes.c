/* Processes on a GPU: those that the profile lists, and the live ones of the registry.
 *
 * A live process holds an exclusive flock on its registry file. A forked child inherits the open file and
 * with it the lock, so the kernel frees it exactly when the last holder of the device is gone: a zombie
 * leader with live threads and a worker whose parent died both keep the memory, under the first one's pid. */
#define _GNU_SOURCE
#include "silicon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* "M+C", a client of the MPS server, and "C+G" are in both of their lists. */
static int wanted(const struct process *process, char kind)
{
    return kind == '*' || strchr(process->kind, kind) != NULL;
}

/* "pid kind mib|- gpu-instance|- compute-instance|- name..." */
static int parse_process(const char *text, struct process *out, const char **name)
{
    char bytes[32], gpu[16], compute[16];
    int taken = 0;
    if (sscanf(text, "%u %7s %31s %15s %15s %n", &out->pid, out->kind, bytes, gpu, compute, &taken) < 5)
        return 0;
    out->bytes = *bytes == '-' ? NO_VALUE_ULL : strtoull(bytes, NULL, 10) * MIB;
    out->gpu_instance = *gpu == '-' ? NO_INSTANCE : (unsigned)atoi(gpu);
    out->compute_instance = *compute == '-' ? NO_INSTANCE : (unsigned)atoi(compute);
    if (name != NULL)
        *name = text + taken;
    return 1;
}

static int listed(struct device *device, char kind, struct process *out, int capacity)
{
    int count = 0;
    for (int i = 0; i < device->values.count && count < capacity; i++) {
        const struct entry *entry = &device->values.entries[i];
        if (strncmp(entry->key, "process.", 8) != 0)
            continue;
        struct process process = {0};
        if (parse_process(entry->value, &process, NULL) && wanted(&process, kind))
            out[count++] = process;
    }
    return count;
}

/* Held means: somebody else has the lock. A file that nobody holds is a remainder of a dead process. */
static int held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK;
}

static int read_registration(int directory, const char *name, const char *gpu, struct process *out)
{
    char text[256] = "";
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int alive = held(fd);
    ssize_t got = alive ? read(fd, text, sizeof text - 1) : 0;
    close(fd);
    if (!alive)
        unlinkat(directory, name, 0);
    if (got <= 0)
        return 0;
    char *space = strchr(text, ' '); /* "gpu-uuid pid kind mib - -" */
    if (space == NULL)
        return 0;
    *space = '\0';
    return strcmp(text, gpu) == 0 && parse_process(space + 1, out, NULL);
}

static int by_pid(const void *left, const void *right)
{
    unsigned a = ((const struct process *)left)->pid, b = ((const struct process *)right)->pid;
    return (a > b) - (a < b);
}

static int registered(struct device *device, char kind, struct process *out, int capacity)
{
    char path[4096];
    const char *uuid = lookup(&device->values, "uuid");
    snprintf(path, sizeof path, "%s/registry", state_directory());
    DIR *directory = uuid == NULL ? NULL : opendir(path);
    if (directory == NULL)
        return 0;
    int count = 0;
    for (struct dirent *item; count < capacity && (item = readdir(directory)) != NULL;) {
        struct process process = {.live = 1};
        if (*item->d_name == '.' || !read_registration(dirfd(directory), item->d_name, uuid, &process))
            continue;
        if (wanted(&process, kind))
            out[count++] = process;
    }
    closedir(directory);
    qsort(out, (size_t)count, sizeof *out, by_pid);
    return count;
}

int processes_on(struct device *device, char kind, struct process *out, int capacity)
{
    int count = listed(device, kind, out, capacity);
    return count + registered(device, kind, out + count, capacity - count);
}

unsigned long long live_bytes(struct device *device)
{
    struct process *found = calloc(MAX_PROCESSES, sizeof *found);
    if (found == NULL)
        return 0;
    int count = registered(device, '*', found, MAX_PROCESSES);
    unsigned long long total = 0;
    for (int i = 0; i < count; i++)
        total += found[i].bytes == NO_VALUE_ULL ? 0 : found[i].bytes;
    free(found);
    return total;
}

/* The name that the profile gives this pid, or NULL when only /proc can know. */
const char *process_name(unsigned pid)
{
    for (int index = 0; index < device_count(); index++) {
        struct device *device = device_at(index);
        for (int i = 0; device != NULL && i < device->values.count; i++) {
            struct process process = {0};
            const char *name = NULL;
            const struct entry *entry = &device->values.entries[i];
            if (strncmp(entry->key, "process.", 8) != 0 || !parse_process(entry->value, &process, &name))
                continue;
            if (process.pid == pid)
                return name;
        }
    }
    return NULL;
}
