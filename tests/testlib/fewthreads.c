/* A system that gives a process no more threads: LD_PRELOAD=fewthreads.so THREADS=N.

   From the call after the Nth on, pthread_create fails as it does when a limit on processes is
   reached. Processes that are started without that variable are let alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long started;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*body)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        dlsym(RTLD_NEXT, "pthread_create");
    const char *threads = getenv("THREADS");
    if (threads && atomic_fetch_add(&started, 1) >= atol(threads))
        return EAGAIN;
    return real(thread, attributes, body, argument);
}
