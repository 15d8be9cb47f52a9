#pragma once
// Functions that Glibc's Swift overlay lacks: epoll, eventfd, accept4, and calls that are variadic
// or macros. _GNU_SOURCE is not defined here: it changes types that Swift's Glibc module also
// defines, and a file that imports both (through Foundation or another C library) would not
// compile. GNU functions are declared by hand instead.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int pthread_setname_np(pthread_t thread, const char *name);
int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int pipe2(int ends[2], int flags);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
int memfd_create(const char *name, unsigned int flags);
static inline int parley_errno(void) { return errno; }
extern char **environ;
static inline char **parley_environment(void) { return environ; }
// Processors of the caller's affinity mask, of at most 65,536; 0 where it cannot be read. glibc's cpu_set_t
// has 1,024.
static inline int parley_allowed_processors(void) {
    unsigned long mask[1024];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++) count += __builtin_popcountl(mask[i]);
    return count;
}
static inline int parley_accept(int fd, struct sockaddr *address, socklen_t *length) {
    return accept4(fd, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
// recv and send by system call, not through glibc: its functions are thread cancellation points,
// which cost 94 of an echo's 800 instructions in user space. A server never cancels a thread.
static inline ssize_t parley_receive(int fd, void *bytes, size_t count) {
    return syscall(SYS_recvfrom, fd, bytes, count, 0, NULL, NULL);
}
static inline ssize_t parley_send(int fd, const void *bytes, size_t count) {
    return syscall(SYS_sendto, fd, bytes, count, MSG_NOSIGNAL, NULL, 0);
}
// Sets up an inherited descriptor: non-blocking, and not inherited by children.
static inline int parley_own_descriptor(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return -1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC);
}
// A second descriptor of the same open file, not inherited by children.
static inline int parley_duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }
// The user of the process at the other end of a Unix socket (SO_PEERCRED), or -1.
static inline int64_t parley_peer_user(int fd) {
    // `struct ucred`, which needs _GNU_SOURCE.
    struct { pid_t process; uid_t user; gid_t group; } peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? (int64_t)peer.user : -1;
}
// The kernel's limit of descriptors in one message (SCM_MAX_FD).
enum { PARLEY_MAX_PASSED_DESCRIPTORS = 253 };
// Sends a byte over a Unix socket, and with it copies of descriptors (SCM_RIGHTS, unix(7)).
// Does not block.
static inline int parley_pass_descriptors(int fd, uint8_t byte, const int *descriptors, int count) {
    if (count < 1 || count > PARLEY_MAX_PASSED_DESCRIPTORS) return errno = EINVAL, -1;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PARLEY_MAX_PASSED_DESCRIPTORS)];
    memset(control, 0, sizeof control);
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(header), descriptors, sizeof(int) * (size_t)count);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -1;
}
// Receives a byte and the descriptors that came with it, at most PARLEY_MAX_PASSED_DESCRIPTORS,
// which children do not inherit. Returns their number, or -1: the call failed, there was no room
// for all descriptors (EMFILE), or the stream has ended, which leaves `errno` 0.
static inline int parley_take_descriptors(int fd, uint8_t *byte, int *descriptors) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PARLEY_MAX_PASSED_DESCRIPTORS)];
    struct iovec bytes = {byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    errno = 0;
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header) return message.msg_flags & MSG_CTRUNC ? (errno = EMFILE, -1) : 0;
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return 0;
    size_t size = header->cmsg_len - CMSG_LEN(0);
    int count = (int)(size / sizeof(int));
    memcpy(descriptors, CMSG_DATA(header), size);
    if (!(message.msg_flags & MSG_CTRUNC)) return count;
    for (int place = 0; place < count; place++) close(descriptors[place]);
    errno = EMFILE;
    return -1;
}
// Unmaps resident pages of the program's own code and constants. Pages that are needed again come
// back from the page cache at the next access. The linker defines both symbols.
static inline void parley_unmap_program(void) {
    extern char __executable_start, etext;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)&__executable_start;
    uintptr_t end = (uintptr_t)&etext & ~(page - 1);
    if (start % page == 0 && end > start) madvise((void *)start, end - start, MADV_DONTNEED);
}
// Opens a file or pipe for reading without waiting for a writer. Reading gives EAGAIN until there
// are bytes.
static inline int parley_open_readonly(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}
// Creates a file in memory without a path. It is freed with its last descriptor.
static inline int parley_open_memory_file(const char *label) {
    return memfd_create(label, 1 /* MFD_CLOEXEC */);
}
// The terminal's columns in the upper half, rows in the lower; 0 without a terminal.
static inline uint32_t parley_terminal_size(int fd) {
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0) return 0;
    return (uint32_t)size.ws_col << 16 | size.ws_row;
}
static inline int parley_epoll_control(
    int epoll, int operation, int fd, uint32_t events, uint64_t data) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = data;
    return epoll_ctl(epoll, operation, fd, &event);
}
