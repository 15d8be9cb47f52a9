#pragma once
// Functions that Glibc's Swift overlay lacks: epoll, eventfd, accept4, and calls that are variadic
// or macros. _GNU_SOURCE is not defined here: it changes types that Swift's Glibc module also
// defines, and a file that imports both (through Foundation or another C library) would not
// compile. GNU functions are declared by hand instead.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
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
// Attaches a BPF program of one instruction: every new connection to the group goes to the socket
// at `index`.
static inline int parley_steer_connections(int fd, uint32_t index) {
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, index}};
    struct sock_fprog program = {1, code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
static inline int parley_stop_steering(int fd) {
    int none = 0;
    return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof none);
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
