// Preloaded into a redis-server, this shifts the time of day by the microseconds that the file named by CLOCK_SHIFT holds,
// and leaves the monotonic clock alone. (libfaketime does not start together with jemalloc.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void now(struct timespec *t) {
	static int fd = -1;
	const char *path = getenv("CLOCK_SHIFT");
	char text[32] = {0};
	syscall(SYS_clock_gettime, CLOCK_REALTIME, t);
	if (fd < 0 && path)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
		return;
	long long ns = t->tv_sec * 1000000000LL + t->tv_nsec + atoll(text) * 1000;
	t->tv_sec = ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec t;
	(void)zone;
	now(&t);
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

int clock_gettime(clockid_t id, struct timespec *t) {
	if (id != CLOCK_REALTIME)
		return syscall(SYS_clock_gettime, id, t);
	now(t);
	return 0;
}

time_t time(time_t *out) {
	struct timespec t;
	now(&t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
