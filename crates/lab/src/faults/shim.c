/* Preloaded into processes under test, to give them a wrong wall clock, slow syncs, and a disk that fails.
 *
 * ADIT_FAULTS names a file of three numbers: seconds to add to the wall clock, milliseconds that each sync takes, and whether
 * positioned writes and syncs fail with EIO. Its pages are mapped, so a change is seen at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *settings;

__attribute__((constructor)) static void map_settings(void) {
	const char *path = getenv("ADIT_FAULTS");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *page = mmap(NULL, 3 * sizeof *settings, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (page != MAP_FAILED)
		settings = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	if (result == 0 && settings && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += settings[0];
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	int result = (int)syscall(SYS_gettimeofday, now, zone);
	if (result == 0 && settings)
		now->tv_sec += settings[0];
	return result;
}

time_t time(time_t *out) {
	struct timespec now = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

static int disk_fails(void) {
	if (!settings || !settings[2])
		return 0;
	errno = EIO;
	return 1;
}

static void wait_for_disk(void) {
	if (settings && settings[1] > 0)
		usleep((useconds_t)(settings[1] * 1000));
}

int fsync(int file) {
	wait_for_disk();
	return disk_fails() ? -1 : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
	wait_for_disk();
	return disk_fails() ? -1 : (int)syscall(SYS_fdatasync, file);
}

ssize_t pwrite64(int file, const void *octets, size_t len, off64_t at) {
	return disk_fails() ? -1 : syscall(SYS_pwrite64, file, octets, len, at);
}
