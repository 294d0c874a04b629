/* Writes, fifty times a second, what the allocator of glibc has of the system and lends.
 *
 * Loaded with LD_PRELOAD by the instrument `allocator`; the file is
 * $BENCH_ALLOCATOR/allocator.PID.csv: seconds, bytes of the system, bytes in use. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static FILE *file;
static struct timespec start;

static void sample(void)
{
	struct mallinfo2 now = mallinfo2();
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	fprintf(file, "%.4f,%zu,%zu\n",
		(double)(time.tv_sec - start.tv_sec) +
			(double)(time.tv_nsec - start.tv_nsec) / 1e9,
		now.arena + now.hblkhd, now.uordblks + now.hblkhd);
	fflush(file);
}

static void *watch(void *unused)
{
	for (;;) {
		sample();
		usleep(20000);
	}
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	const char *directory = getenv("BENCH_ALLOCATOR");
	char path[4096];
	pthread_t thread;

	if (!directory)
		return;
	snprintf(path, sizeof(path), "%s/allocator.%d.csv", directory, (int)getpid());
	file = fopen(path, "w");
	if (!file)
		return;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pthread_create(&thread, NULL, watch, NULL))
		return;
	pthread_detach(thread);
}

__attribute__((destructor)) static void end(void)
{
	if (file)
		sample();
}
