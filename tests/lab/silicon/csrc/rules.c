/* What may happen to a call before it answers: an error code, a delay, or no return at all. */
#define _GNU_SOURCE
#include "silicon.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static atomic_int initialised;

void init_count_add(int by) { atomic_fetch_add(&initialised, by); }

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* A driver call that never comes back shows as state D and does not notice SIGINT or SIGTERM. The kernel
 * puts the caller of vfork into exactly that sleep until its child ends or execs, and this child does
 * neither. (SIGKILL still ends such a sleep, which a real driver bug may refuse: no unprivileged program
 * can have that.) */
static void hang(void)
{
    sigset_t every;
    pid_t caller = getpid();
    sigfillset(&every);
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            sigprocmask(SIG_SETMASK, &every, NULL);
            while (getppid() == caller) /* it may have died before the line above was reached */
                sleep_ms(200);
            _exit(0);
        }
        if (child < 0)
            sleep_ms(1000);
    }
}

/* A rule is a list of words: "delay MS", "return CODE", "hang", taken from left to right. */
static nvmlReturn_t apply(const char *rule)
{
    char words[256];
    char *rest = NULL;
    snprintf(words, sizeof words, "%s", rule);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strcmp(word, "hang") == 0)
            hang();
        char *argument = strtok_r(NULL, " ", &rest);
        if (argument == NULL)
            break;
        if (strcmp(word, "delay") == 0)
            sleep_ms(atol(argument));
        if (strcmp(word, "return") == 0)
            return atoi(argument);
    }
    return NVML_SUCCESS;
}

/* "call.nvmlDeviceGetMemoryInfo" bends every version of that function, "..._v2" that one alone. */
static nvmlReturn_t rule_named(const struct section *section, const char *function)
{
    char key[160];
    snprintf(key, sizeof key, "call.%s", function);
    const char *rule = lookup(section, key);
    size_t length = strlen(key);
    if (rule == NULL && length > 3 && key[length - 3] == '_' && key[length - 2] == 'v') {
        key[length - 3] = '\0';
        rule = lookup(section, key);
    }
    return rule == NULL ? NVML_SUCCESS : apply(rule);
}

static nvmlReturn_t rules_of(const struct section *section, const char *function)
{
    nvmlReturn_t said = rule_named(section, "*");
    return said != NVML_SUCCESS ? said : rule_named(section, function);
}

nvmlReturn_t enter_init(const char *function)
{
    nvmlReturn_t loaded = state_load();
    return loaded != NVML_SUCCESS ? loaded : rule_named(state_system(), function);
}

nvmlReturn_t enter_system(const char *function)
{
    if (atomic_load(&initialised) <= 0)
        return NVML_ERROR_UNINITIALIZED;
    return rule_named(state_system(), function);
}

/* For a call that makes a handle: only a rule that names it applies, "*" bends calls on the handle. */
nvmlReturn_t enter_handle(const char *function, struct device *device)
{
    return device == NULL ? NVML_ERROR_INVALID_ARGUMENT : rule_named(&device->values, function);
}

nvmlReturn_t enter_device(const char *function, nvmlDevice_t handle)
{
    nvmlReturn_t said = enter_system(function);
    if (said != NVML_SUCCESS)
        return said;
    struct device *device = device_checked(handle);
    if (device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return rules_of(&device->values, function);
}
