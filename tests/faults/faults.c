/*
 * A library to preload: it stands between a program and the system calls that change files, and records, fails,
 * shortens or kills at those that concern one folder.
 *
 *   FAULTS_FOLDER   the folder, absolute and without links; without it nothing is touched
 *   FAULTS_RECORD   the file that the calls are recorded in; none is made without it
 *
 * A program steers it with `mkdir` in that folder, of names that begin with '@'; no such folder is made:
 *
 *   @plan CALLS FIRST COUNT WHAT NUMBER   from now on, of the calls CALLS, the FIRST-th (from 1) and those after
 *                                         it, COUNT in all, meet WHAT
 *   @off                                  from now on, nothing happens to any call
 *   @mark TEXT                            is only recorded
 *
 * CALLS is a list of names with commas between, `changes` for all that change something, or `reads`.
 * WHAT is one of:
 *
 *   fail ERRNO       the call does nothing and fails
 *   short BYTES      a write writes so many bytes at most
 *   before 0         the process is killed before the call
 *   after 0          and after it
 *   room BYTES       so many bytes more are written, then writes fail: the disk is full
 *   life BYTES       so many bytes more are written, then the process is killed
 *
 * A record is a line of fields with tabs between: call, result or minus errno, inode, path, second path,
 * offset or flags, length, data in hexadecimal digits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum what { NOTHING, FAIL, SHORT, BEFORE, AFTER, ROOM, LIFE };

static const char *const WHATS[] = {"nothing", "fail", "short", "before", "after", "room", "life"};

/* What is to happen to which calls. */
static struct {
    char calls[200];
    long first, count, number, seen;
    enum what what;
} plan;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static FILE *record;

/* A call that concerns the folder, from its beginning to its end. */
struct call {
    const char *name;
    char path[PATH_MAX], second[PATH_MAX];
    long offset, length;
    ino_t inode;
    const void *data;
    enum what what;
    long number;
};

/* The function that would have been called without this library. */
static void (*next(const char *name))(void)
{
    void *found = dlsym(RTLD_NEXT, name);
    void (*function)(void) = NULL;
    if (found == NULL) {
        fprintf(stderr, "faults: there is no %s\n", name);
        abort();
    }
    memcpy(&function, &found, sizeof function);
    return function;
}

/* Declares `real`, the function of that name, found once. */
#define REAL(result, name, ...)                                  \
    static result (*real)(__VA_ARGS__);                          \
    if (real == NULL) real = (result(*)(__VA_ARGS__))next(#name)

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

__attribute__((constructor)) static void begin_work(void)
{
    const char *of = getenv("FAULTS_FOLDER"), *into = getenv("FAULTS_RECORD");
    if (of == NULL || strlen(of) >= sizeof folder) return;
    if (into != NULL) {
        record = fopen(into, "ae");
        if (record == NULL) {
            perror("faults: FAULTS_RECORD");
            abort();
        }
    }
    strcpy(folder, of);
}

static int is_below(const char *path)
{
    size_t length = strlen(folder);
    return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Where a descriptor leads to; whether that is below the folder. */
static int of_descriptor(int fd, char path[PATH_MAX])
{
    char link[64];
    ssize_t length;
    size_t gone = strlen(" (deleted)");
    if (folder[0] == '\0') return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    if ((size_t)length > gone && strcmp(path + length - gone, " (deleted)") == 0) path[(size_t)length - gone] = '\0';
    return is_below(path);
}

/* What a name means beside the folder `at`; whether that is below ours. */
static int of_name(int at, const char *name, char path[PATH_MAX])
{
    char from[PATH_MAX];
    int length;
    if (folder[0] == '\0') return 0;
    if (name[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s", name);
    } else if (at == AT_FDCWD) {
        if (getcwd(from, sizeof from) == NULL) return 0;
        length = snprintf(path, PATH_MAX, "%s/%s", from, name);
    } else {
        of_descriptor(at, from);
        length = snprintf(path, PATH_MAX, "%s/%s", from, name);
    }
    return length < PATH_MAX && is_below(path);
}

static int names(const char *calls, const char *name)
{
    size_t length = strlen(name);
    const char *at = calls;
    if (strcmp(calls, "changes") == 0) return strcmp(name, "open") != 0 && strcmp(name, "read") != 0;
    if (strcmp(calls, "reads") == 0) return strcmp(name, "open") == 0 || strcmp(name, "read") == 0;
    while ((at = strstr(at, name)) != NULL) {
        if ((at == calls || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return 1;
        at += length;
    }
    return 0;
}

/* A call begins: nobody else is in one until it ends. */
static void begin(struct call *call, const char *name)
{
    pthread_mutex_lock(&turn);
    call->name = name;
    call->what = NOTHING;
    if (plan.what == NOTHING || !names(plan.calls, name)) return;
    plan.seen++;
    if (plan.seen < plan.first || plan.seen - plan.first >= plan.count) return;
    call->what = plan.what;
    call->number = plan.number;
    if (call->what == BEFORE) die();
}

/* Whether the call is to fail, with errno set. */
static int fails(const struct call *call)
{
    if (call->what == FAIL) errno = (int)call->number;
    return call->what == FAIL;
}

static void put(const struct call *call, long result)
{
    const unsigned char *bytes = call->data;
    long at;
    fprintf(record, "%s\t%ld\t%lu\t%s\t%s\t%ld\t%ld\t", call->name, result, (unsigned long)call->inode, call->path,
            call->second, call->offset, call->length);
    for (at = 0; bytes != NULL && at < result; at++) fprintf(record, "%02x", bytes[at]);
    fputc('\n', record);
    fflush(record);
}

/* The call has ended with `result`. */
static long end(const struct call *call, long result)
{
    int error = errno;
    if (record != NULL) put(call, result < 0 ? -(long)error : result);
    if (call->what == AFTER) die();
    pthread_mutex_unlock(&turn);
    errno = error;
    return result;
}

/* How many of `length` bytes may be written; -1 if the write is to fail. */
static ssize_t may_write(const struct call *call, size_t length)
{
    size_t left = (size_t)call->number;
    if (fails(call)) return -1;
    if (call->what == SHORT) return (ssize_t)(length < left ? length : left);
    if (call->what != ROOM && call->what != LIFE) return (ssize_t)length;
    if (left == 0 && length > 0) {
        if (call->what == LIFE) die();
        errno = ENOSPC;
        return -1;
    }
    if (length > left) length = left;
    plan.number -= (long)length;
    return (ssize_t)length;
}

/* What comes over `mkdir`; whether it was meant for this library. */
static int is_for_us(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char what[16];
    size_t number;
    if (name[0] != '@') return 0;
    if (strcmp(name, "@off") == 0) plan.what = NOTHING;
    if (strncmp(name, "@plan ", 6) != 0) return 1;
    plan.what = NOTHING;
    plan.seen = 0;
    if (sscanf(name, "@plan %199s %ld %ld %15s %ld", plan.calls, &plan.first, &plan.count, what, &plan.number) == 5) {
        for (number = FAIL; number <= LIFE; number++) {
            if (strcmp(what, WHATS[number]) == 0) plan.what = (enum what)number;
        }
    }
    if (plan.what == NOTHING) {
        fprintf(stderr, "faults: this is no plan: %s\n", name);
        abort();
    }
    return 1;
}

/* ---- names ---- */

int mkdir(const char *name, mode_t mode)
{
    struct call call = {0};
    REAL(int, mkdir, const char *, mode_t);
    if (!of_name(AT_FDCWD, name, call.path)) return real(name, mode);
    if (strrchr(call.path, '/')[1] == '@') {
        pthread_mutex_lock(&turn);
        call.name = "mark";
        is_for_us(call.path);
        return (int)end(&call, 0);
    }
    begin(&call, "mkdir");
    return (int)end(&call, fails(&call) ? -1 : real(name, mode));
}

int rmdir(const char *name)
{
    struct call call = {0};
    REAL(int, rmdir, const char *);
    if (!of_name(AT_FDCWD, name, call.path)) return real(name);
    begin(&call, "rmdir");
    return (int)end(&call, fails(&call) ? -1 : real(name));
}

int unlinkat(int at, const char *name, int flags)
{
    struct call call = {0};
    REAL(int, unlinkat, int, const char *, int);
    if (!of_name(at, name, call.path)) return real(at, name, flags);
    begin(&call, (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink");
    return (int)end(&call, fails(&call) ? -1 : real(at, name, flags));
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    struct call call = {0};
    REAL(int, linkat, int, const char *, int, const char *, int);
    of_name(from_at, from, call.path);
    if (!of_name(to_at, to, call.second)) return real(from_at, from, to_at, to, flags);
    begin(&call, "link");
    return (int)end(&call, fails(&call) ? -1 : real(from_at, from, to_at, to, flags));
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags)
{
    struct call call = {0};
    REAL(int, renameat2, int, const char *, int, const char *, unsigned int);
    int is_ours = of_name(from_at, from, call.path);
    is_ours |= of_name(to_at, to, call.second);
    if (!is_ours) return real(from_at, from, to_at, to, flags);
    begin(&call, "rename");
    call.offset = (long)flags;
    return (int)end(&call, fails(&call) ? -1 : real(from_at, from, to_at, to, flags));
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int openat(int at, const char *name, int flags, ...)
{
    struct call call = {0};
    struct stat there;
    mode_t mode = 0;
    int fd;
    REAL(int, openat, int, const char *, int, ...);
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (!of_name(at, name, call.path)) return real(at, name, flags, mode);
    if ((flags & O_CREAT) != 0 && lstat(call.path, &there) != 0) {
        begin(&call, "create");
    } else {
        begin(&call, (flags & O_TRUNC) != 0 ? "ftruncate" : "open");
    }
    if (fails(&call)) return (int)end(&call, -1);
    fd = real(at, name, flags, mode);
    if (fd >= 0 && fstat(fd, &there) == 0) call.inode = there.st_ino;
    end(&call, fd < 0 ? -1 : 0);
    return fd;
}

/* The same call by its other names. */
#define OPEN(name, ...)                                     \
    int name(__VA_ARGS__)                                   \
    {                                                       \
        mode_t mode = 0;                                    \
        if ((flags & O_CREAT) != 0) {                       \
            va_list more;                                   \
            va_start(more, flags);                          \
            mode = va_arg(more, mode_t);                    \
            va_end(more);                                   \
        }                                                   \
        return openat(AT, path, flags, mode);               \
    }

#define AT AT_FDCWD
OPEN(open, const char *path, int flags, ...)
OPEN(open64, const char *path, int flags, ...)
#undef AT
#define AT at
OPEN(openat64, int at, const char *path, int flags, ...)

int creat(const char *path, mode_t mode)
{
    return openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

/* ---- contents ---- */

/* A call on a file of ours begins; whether it is one. */
static int begin_at(struct call *call, int fd, const char *name)
{
    struct stat there;
    if (!of_descriptor(fd, call->path) || fstat(fd, &there) != 0) return 0;
    begin(call, name);
    call->inode = there.st_ino;
    return 1;
}

/* Where the next write to a descriptor goes. */
static long place_of(int fd)
{
    struct stat there;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_APPEND) != 0 && fstat(fd, &there) == 0) return (long)there.st_size;
    return (long)lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t length)
{
    struct call call = {0};
    ssize_t some;
    REAL(ssize_t, write, int, const void *, size_t);
    if (!begin_at(&call, fd, "write")) return real(fd, data, length);
    call.data = data;
    call.offset = place_of(fd);
    call.length = (long)length;
    some = may_write(&call, length);
    return end(&call, some < 0 ? -1 : real(fd, data, (size_t)some));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset)
{
    struct call call = {0};
    ssize_t some;
    REAL(ssize_t, pwrite64, int, const void *, size_t, off_t);
    if (!begin_at(&call, fd, "write")) return real(fd, data, length, offset);
    call.data = data;
    call.offset = (long)offset;
    call.length = (long)length;
    some = may_write(&call, length);
    return end(&call, some < 0 ? -1 : real(fd, data, (size_t)some, offset));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    return pwrite64(fd, data, length, offset);
}

/* The pieces one after the other, as far as they are written: a short write is legal. */
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
    ssize_t done = 0;
    int piece;
    for (piece = 0; piece < count; piece++) {
        ssize_t some = pwrite64(fd, pieces[piece].iov_base, pieces[piece].iov_len, offset + done);
        if (some < 0) return done > 0 ? done : -1;
        done += some;
        if ((size_t)some < pieces[piece].iov_len) break;
    }
    return done;
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off_t offset)
{
    return pwritev(fd, pieces, count, offset);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    char path[PATH_MAX];
    ssize_t done = 0;
    int piece;
    REAL(ssize_t, writev, int, const struct iovec *, int);
    if (!of_descriptor(fd, path)) return real(fd, pieces, count);
    for (piece = 0; piece < count; piece++) {
        ssize_t some = write(fd, pieces[piece].iov_base, pieces[piece].iov_len);
        if (some < 0) return done > 0 ? done : -1;
        done += some;
        if ((size_t)some < pieces[piece].iov_len) break;
    }
    return done;
}

/* Copies within the system are done by hand, so that what was copied is known. */
static ssize_t copy(int from, off_t *from_at, int to, off_t *to_at, size_t length)
{
    static char bytes[1 << 16];
    size_t wanted = length < sizeof bytes ? length : sizeof bytes;
    ssize_t had = from_at == NULL ? read(from, bytes, wanted) : pread(from, bytes, wanted, *from_at);
    ssize_t put_down;
    if (had <= 0) return had;
    put_down = to_at == NULL ? write(to, bytes, (size_t)had) : pwrite64(to, bytes, (size_t)had, *to_at);
    if (from_at == NULL) {
        if (put_down < had) lseek(from, (put_down < 0 ? 0 : put_down) - had, SEEK_CUR);
    } else if (put_down > 0) {
        *from_at += put_down;
    }
    if (to_at != NULL && put_down > 0) *to_at += put_down;
    return put_down;
}

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t length, unsigned int flags)
{
    char path[PATH_MAX];
    REAL(ssize_t, copy_file_range, int, off_t *, int, off_t *, size_t, unsigned int);
    if (!of_descriptor(to, path)) return real(from, from_at, to, to_at, length, flags);
    return copy(from, from_at, to, to_at, length);
}

ssize_t sendfile64(int to, int from, off_t *from_at, size_t length)
{
    char path[PATH_MAX];
    REAL(ssize_t, sendfile64, int, int, off_t *, size_t);
    if (!of_descriptor(to, path)) return real(to, from, from_at, length);
    return copy(from, from_at, to, NULL, length);
}

ssize_t sendfile(int to, int from, off_t *from_at, size_t length)
{
    return sendfile64(to, from, from_at, length);
}

int ftruncate64(int fd, off_t length)
{
    struct call call = {0};
    REAL(int, ftruncate64, int, off_t);
    if (!begin_at(&call, fd, "ftruncate")) return real(fd, length);
    call.offset = (long)length;
    return (int)end(&call, fails(&call) ? -1 : real(fd, length));
}

int ftruncate(int fd, off_t length)
{
    return ftruncate64(fd, length);
}

int fsync(int fd)
{
    struct call call = {0};
    REAL(int, fsync, int);
    if (!begin_at(&call, fd, "fsync")) return real(fd);
    return (int)end(&call, fails(&call) ? -1 : real(fd));
}

int fdatasync(int fd)
{
    struct call call = {0};
    REAL(int, fdatasync, int);
    if (!begin_at(&call, fd, "fdatasync")) return real(fd);
    return (int)end(&call, fails(&call) ? -1 : real(fd));
}

/* ---- reads: not recorded as changes, but they can fail ---- */

ssize_t read(int fd, void *into, size_t length)
{
    struct call call = {0};
    REAL(ssize_t, read, int, void *, size_t);
    if (!begin_at(&call, fd, "read")) return real(fd, into, length);
    return end(&call, fails(&call) ? -1 : real(fd, into, length));
}

ssize_t pread64(int fd, void *into, size_t length, off_t offset)
{
    struct call call = {0};
    REAL(ssize_t, pread64, int, void *, size_t, off_t);
    if (!begin_at(&call, fd, "read")) return real(fd, into, length, offset);
    return end(&call, fails(&call) ? -1 : real(fd, into, length, offset));
}

ssize_t pread(int fd, void *into, size_t length, off_t offset)
{
    return pread64(fd, into, length, offset);
}
