/* Reads the state file and answers look-ups in it. */
#include "silicon.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct section system_values;
static struct device devices[MAX_DEVICES];
static int gpu_total;
static int used;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static char *loaded_text;

const char *state_directory(void)
{
    const char *named = getenv("SILICON_STATE");
    return named != NULL && *named != '\0' ? named : "/run/gpulaunch-silicon";
}

struct section *state_system(void) { return &system_values; }

int device_count(void) { return gpu_total; }

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    for (size_t got; text != NULL && (got = fread(text + size, 1, room - size - 1, file)) > 0;) {
        size += got;
        if (size + 1 == room)
            text = realloc(text, room *= 2);
    }
    fclose(file);
    if (text != NULL)
        text[size] = '\0';
    return text;
}

static void add(struct section *section, char *key, char *value)
{
    if (section->count % 64 == 0)
        section->entries = realloc(section->entries, (size_t)(section->count + 64) * sizeof(struct entry));
    section->entries[section->count].key = key;
    section->entries[section->count].value = value;
    section->count++;
}

static struct section *open_section(const char *line)
{
    int gpu = -1, mig = -1;
    if (strncmp(line, "[system]", 8) == 0)
        return &system_values;
    if (used >= MAX_DEVICES)
        return NULL;
    struct device *fresh = &devices[used];
    if (sscanf(line, "[mig %d %d]", &gpu, &mig) == 2) {
        fresh->index = mig;
        fresh->parent = device_at(gpu);
    } else if (sscanf(line, "[gpu %d]", &gpu) == 1) {
        fresh->index = gpu;
        fresh->parent = NULL;
        gpu_total++;
    } else {
        return NULL;
    }
    used++;
    return &fresh->values;
}

static void forget(void)
{
    for (int i = 0; i < used; i++)
        free(devices[i].values.entries);
    free(system_values.entries);
    memset(devices, 0, sizeof devices);
    memset(&system_values, 0, sizeof system_values);
    free(loaded_text);
    loaded_text = NULL;
    used = gpu_total = 0;
}

static void parse(char *text)
{
    struct section *section = NULL;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (*line == '[') {
            section = open_section(line);
            continue;
        }
        char *equals = strchr(line, '=');
        if (section == NULL || equals == NULL)
            continue;
        *equals = '\0';
        add(section, line, equals + 1);
    }
}

/* Without a state file there is no driver: that is what NVML says on a host whose module is not loaded. */
nvmlReturn_t state_load(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/state", state_directory());
    pthread_mutex_lock(&loading);
    char *text = read_all(path);
    if (text != NULL) {
        forget();
        loaded_text = text;
        parse(text);
    }
    pthread_mutex_unlock(&loading);
    return text != NULL ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

struct device *device_at(int index)
{
    for (int i = 0; i < used; i++)
        if (devices[i].parent == NULL && devices[i].index == index)
            return &devices[i];
    return NULL;
}

struct device *mig_at(struct device *gpu, int index)
{
    for (int i = 0; i < used; i++)
        if (devices[i].parent == gpu && devices[i].index == index)
            return &devices[i];
    return NULL;
}

int mig_count(struct device *gpu)
{
    int count = 0;
    for (int i = 0; i < used; i++)
        count += devices[i].parent == gpu;
    return count;
}

struct device *device_checked(nvmlDevice_t handle)
{
    for (int i = 0; i < used; i++)
        if (handle == &devices[i])
            return handle;
    return NULL;
}

const char *lookup(const struct section *section, const char *key)
{
    for (int i = 0; i < section->count; i++)
        if (strcmp(section->entries[i].key, key) == 0)
            return section->entries[i].value;
    return NULL;
}

nvmlReturn_t text_of(const struct section *section, const char *key, const char **out)
{
    const char *value = lookup(section, key);
    if (value == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    if (*value == '!')
        return atoi(value + 1);
    *out = value;
    return NVML_SUCCESS;
}

nvmlReturn_t number_of(const struct section *section, const char *key, long long *out)
{
    const char *text = NULL;
    nvmlReturn_t read = text_of(section, key, &text);
    if (read == NVML_SUCCESS)
        *out = strtoll(text, NULL, 0);
    return read;
}

nvmlReturn_t copy_text(const struct section *section, const char *key, char *buffer, unsigned length)
{
    const char *text = NULL;
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t read = text_of(section, key, &text);
    if (read != NVML_SUCCESS)
        return read;
    if (strlen(text) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}
