/* A thread that writes buffers to a file and syncs it, one write after the other, and knows nothing of Python.
 *
 *     caller   write_thread_begin   fills the next job, and posts `begun`
 *     thread   write_thread_run     writes, syncs, fills the job's outcome, and adds one to `ended`, an eventfd
 *     caller   write_thread_end     takes one from `ended`, which blocks until there is one
 *
 * A second write may be begun before the first has ended: it follows when that is synced, without a word from the caller, and
 * is left out if that failed. Between a begin and its end a job is the thread's, otherwise the caller's; the semaphore and the
 * eventfd order the two.
 * It calls fdatasync through the C library, so what stands before that (LD_PRELOAD) stands before this thread, too.
 */
#ifndef LEVERET_WRITE_THREAD_H
#define LEVERET_WRITE_THREAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define WRITE_PARTS_PER_CALL_MAX 1024 /* IOV_MAX of Linux */
#define WRITES_MAX 2

enum write_step { WRITE_STEP_NONE, WRITE_STEP_WRITE, WRITE_STEP_SYNC, WRITE_STEP_BEFORE /* the write before failed */ };

struct write_job {
    int follows; /* begun before the end of the one before was taken: not to be written if that failed */
    int descriptor;
    int64_t offset;
    struct iovec *parts; /* none of them empty; the thread changes them */
    size_t part_count;
    /* its outcome */
    enum write_step failed;
    int error; /* an errno; 0 where the system wrote nothing and gave no reason */
    double took_s;
};

struct write_thread {
    pthread_t thread;
    sem_t begun;
    int ended;
    int stops;
    struct write_job jobs[WRITES_MAX];
    /* the caller's: how many were begun, and of how many the end was taken */
    unsigned begun_count, ended_count;
};

static double write_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Go past bytes that were written: the first part is then the first that was not, or what is left of it. */
static void write_pass(struct write_job *self, size_t bytes)
{
    self->offset += (int64_t)bytes;
    while (self->part_count > 0 && bytes >= self->parts->iov_len) {
        bytes -= self->parts->iov_len;
        self->parts++;
        self->part_count--;
    }
    if (bytes > 0) {
        self->parts->iov_base = (char *)self->parts->iov_base + bytes;
        self->parts->iov_len -= bytes;
    }
}

/* Returns 0, or -1 with `error` set. A short write goes on with the rest. */
static int write_all(struct write_job *self)
{
    while (self->part_count > 0) {
        size_t count = self->part_count < WRITE_PARTS_PER_CALL_MAX ? self->part_count : WRITE_PARTS_PER_CALL_MAX;
        ssize_t written = pwritev(self->descriptor, self->parts, (int)count, (off_t)self->offset);
        if (written > 0) {
            write_pass(self, (size_t)written);
        } else if (written == 0 || errno != EINTR) {
            self->error = written == 0 ? 0 : errno;
            return -1;
        }
    }
    return 0;
}

static int write_sync(struct write_job *self)
{
    while (fdatasync(self->descriptor) != 0) {
        if (errno != EINTR) {
            self->error = errno;
            return -1;
        }
    }
    return 0;
}

static void write_and_sync(struct write_job *self)
{
    double began_s = write_clock_s();
    self->error = 0;
    if (write_all(self) != 0)
        self->failed = WRITE_STEP_WRITE;
    else if (write_sync(self) != 0)
        self->failed = WRITE_STEP_SYNC;
    else
        self->failed = WRITE_STEP_NONE;
    self->took_s = write_clock_s() - began_s;
}

static void write_nothing(struct write_job *self)
{
    self->failed = WRITE_STEP_BEFORE;
    self->error = 0;
    self->took_s = 0;
}

static void *write_thread_run(void *argument)
{
    struct write_thread *self = (struct write_thread *)argument;
    const uint64_t one = 1;
    int failed = 0;
    for (unsigned at = 0;; at++) {
        struct write_job *job = &self->jobs[at % WRITES_MAX];
        while (sem_wait(&self->begun) != 0)
            ; /* EINTR only */
        if (self->stops)
            return NULL;
        if (failed && job->follows)
            write_nothing(job);
        else
            write_and_sync(job);
        failed = job->failed != WRITE_STEP_NONE;
        while (write(self->ended, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
}

/* Signals are for Python's main thread: this one has them all blocked, from its first instruction on. */
static int write_thread_create(struct write_thread *self)
{
    sigset_t all, before;
    int error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&self->thread, NULL, write_thread_run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(self->thread, "leveret-commit");
    return error;
}

/* Returns 0, or an errno: nothing is left behind then. */
static int write_thread_start(struct write_thread *self)
{
    int error;
    self->stops = 0;
    self->begun_count = self->ended_count = 0;
    self->ended = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (self->ended < 0)
        return errno;
    sem_init(&self->begun, 0, 0);
    error = write_thread_create(self);
    if (error != 0) {
        sem_destroy(&self->begun);
        close(self->ended);
    }
    return error;
}

/* Where fewer than WRITES_MAX are on their way. `parts` stay the caller's, and must be there until the end. */
static void write_thread_begin(
    struct write_thread *self, int descriptor, int64_t offset, struct iovec *parts, size_t part_count)
{
    struct write_job *job = &self->jobs[self->begun_count % WRITES_MAX];
    job->follows = self->begun_count != self->ended_count;
    job->descriptor = descriptor;
    job->offset = offset;
    job->parts = parts;
    job->part_count = part_count;
    self->begun_count++;
    sem_post(&self->begun);
}

/* Blocks until the write that was begun first of those on their way has ended. Returns 0, or EINTR when a signal came first. */
static int write_thread_end(struct write_thread *self)
{
    uint64_t count;
    if (read(self->ended, &count, sizeof count) < 0)
        return errno;
    self->ended_count++;
    return 0;
}

/* Only where no write is on its way. */
static void write_thread_stop(struct write_thread *self)
{
    self->stops = 1;
    sem_post(&self->begun);
    pthread_join(self->thread, NULL);
    sem_destroy(&self->begun);
    close(self->ended);
}

#endif
