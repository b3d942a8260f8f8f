/* Stands before fsync and fdatasync of a node (LD_PRELOAD), and does what the file named by CHAOS_FSYNC says:
 *
 *     microseconds to wait before each of them, and 1 when each is to fail with EIO
 *
 * The file is read at each call, so a fault begins and ends while the node runs. Without the file nothing is changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int faulty(void)
{
    const char *path = getenv("CHAOS_FSYNC");
    FILE *control = path ? fopen(path, "re") : NULL;
    long wait_us = 0;
    int fails = 0;

    if (control == NULL)
        return 0;
    if (fscanf(control, "%ld %d", &wait_us, &fails) < 1)
        wait_us = 0;
    fclose(control);
    if (wait_us > 0)
        usleep((useconds_t)wait_us);
    return fails;
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

    if (faulty()) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

    if (faulty()) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}
