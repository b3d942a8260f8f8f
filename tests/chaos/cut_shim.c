/* Stands before some calls of a process (LD_PRELOAD) and ends it with SIGKILL in the midst of what it does:
 *
 *     CHAOS_CUT_LINE   a file with a text: killed when a line with this text was written to standard error
 *     CHAOS_CUT_SYNC   a number: killed instead of its so manyth fsync, fdatasync or rename
 *
 * The file is read at each write to standard error, so a process can be told while it runs. Nothing of the process goes on
 * behind the moment: what the line tells is done, and what comes behind it is not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int syncs;

static void end(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static int is_the_line(const void *bytes, size_t size)
{
    const char *path = getenv("CHAOS_CUT_LINE");
    FILE *control = path ? fopen(path, "re") : NULL;
    char text[256];
    size_t length;

    if (control == NULL)
        return 0;
    length = fread(text, 1, sizeof text, control);
    fclose(control);
    return length > 0 && memmem(bytes, size, text, length) != NULL;
}

static void count_sync(void)
{
    const char *wanted = getenv("CHAOS_CUT_SYNC");

    if (wanted != NULL && atomic_fetch_add(&syncs, 1) + 1 == atoi(wanted))
        end();
}

ssize_t write(int descriptor, const void *bytes, size_t size)
{
    ssize_t (*real)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    ssize_t written = real(descriptor, bytes, size);

    if (descriptor == STDERR_FILENO && is_the_line(bytes, size))
        end();
    return written;
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

    count_sync();
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

    count_sync();
    return real(descriptor);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");

    count_sync();
    return real(from, to);
}
