// SPDX-License-Identifier: MIT
//
// A library for LD_PRELOAD that lets one call of a kind go wrong.
//
//   FAULT=CALL:N:HOW   the N-th call (N+: and all later ones) of malloc, calloc, realloc,
//   aligned_alloc
//                      ("alloc": any of these), read, pread, write, open, close, mmap, fstat,
//                      lseek, getrandom, pthread_create
//     HOW  a number    it fails with this errno
//          short       it does only a part (read, pread, write)
//          cut         FAULT_FILE is truncated to a half before it
//          touch       FAULT_FILE gets the present time as that of its last change
//          sigN        signal N arrives before it
//   FAULT_MARK=FILE    is made when that happens: without it, the run had fewer calls
//
// Calls inside libc and by the dynamic linker do not count, those of other libraries do.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// glibc's own names for its allocator, so that nothing is looked up before it works.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

enum how { FAIL, SHORT, CUT, TOUCH, SIGNAL };

static char call[32];
static long nth;
static bool later;
static enum how how;
static int number;
static atomic_long seen;

__attribute__((constructor)) static void fault_init(void)
{
	const char *text = getenv("FAULT");
	char plus[2] = "", action[16];
	if (text == NULL)
		return;
	if (sscanf(text, "%31[^:]:%ld%1[+:]%15s", call, &nth, plus, action) != 4)
		abort();
	later = plus[0] == '+';
	// Ends a run that hangs.
	alarm(20);
	const char *word = action + (action[0] == ':');
	if (strcmp(word, "short") == 0)
		how = SHORT;
	else if (strcmp(word, "cut") == 0)
		how = CUT;
	else if (strcmp(word, "touch") == 0)
		how = TOUCH;
	else if (sscanf(word, "sig%d", &number) == 1)
		how = SIGNAL;
	else
		number = atoi(word);
}

static void fault_mark(void)
{
	const char *mark = getenv("FAULT_MARK");
	if (mark == NULL)
		return;
	const long fd = syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		syscall(SYS_close, fd);
}

// Whether this call is to fail (errno is set) or to be short.
static bool fault(const char *name, const char *group)
{
	if (strcmp(call, name) != 0 && (group == NULL || strcmp(call, group) != 0))
		return false;
	const long now = atomic_fetch_add(&seen, 1) + 1;
	if (now != nth && !(later && now > nth))
		return false;
	fault_mark();
	const char *file = getenv("FAULT_FILE");
	struct stat status;
	switch (how) {
	case CUT:
		if (file == NULL || stat(file, &status) != 0 ||
			truncate(file, status.st_size / 2) != 0)
			abort();
		return false;
	case TOUCH:
		if (file == NULL || utimensat(AT_FDCWD, file, NULL, 0) != 0)
			abort();
		return false;
	case SIGNAL:
		raise(number);
		return false;
	case SHORT:
		return true;
	default:
		errno = number;
		return true;
	}
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

void *malloc(size_t size)
{
	return fault("malloc", "alloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fault("calloc", "alloc") ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return fault("realloc", "alloc") ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fault("aligned_alloc", "alloc") ? NULL : __libc_memalign(alignment, size);
}

// The size that is asked for instead; SIZE_MAX: fail.
static size_t fault_size(const char *name, size_t size)
{
	if (!fault(name, NULL))
		return size;
	return how != SHORT ? SIZE_MAX : size > 1 ? size / 2 : size;
}

ssize_t read(int fd, void *buffer, size_t size)
{
	size = fault_size("read", size);
	return size == SIZE_MAX ? -1 : syscall(SYS_read, fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	size = fault_size("pread", size);
	return size == SIZE_MAX ? -1 : syscall(SYS_pread64, fd, buffer, size, offset);
}

ssize_t pread64(int fd, void *buffer, size_t size, off_t offset)
{
	return pread(fd, buffer, size, offset);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	size = fault_size("write", size);
	return size == SIZE_MAX ? -1 : syscall(SYS_write, fd, buffer, size);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	const int mode = (flags & O_CREAT) != 0 ? va_arg(args, int) : 0;
	va_end(args);
	return fault("open", NULL) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	return open(path, flags & ~O_CREAT);
}

int close(int fd)
{
	const int result = (int)syscall(SYS_close, fd);
	return fault("close", NULL) ? -1 : result;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	return fault("mmap", NULL)
		       ? MAP_FAILED
		       : (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap(address, size, protection, flags, fd, offset);
}

int fstat(int fd, struct stat *ret)
{
	return fault("fstat", NULL) ? -1 : (int)syscall(SYS_fstat, fd, ret);
}

off_t lseek(int fd, off_t offset, int whence)
{
	return fault("lseek", NULL) ? -1 : syscall(SYS_lseek, fd, offset, whence);
}

off_t lseek64(int fd, off_t offset, int whence)
{
	return lseek(fd, offset, whence);
}

ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
	return fault("getrandom", NULL) ? -1 : syscall(SYS_getrandom, buffer, size, flags);
}

int pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	if (fault("pthread_create", NULL))
		return EAGAIN;
	return REAL(pthread_create)(thread, attributes, run, argument);
}
