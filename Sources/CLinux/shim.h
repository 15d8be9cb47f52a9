#pragma once
// What Glibc's Swift overlay lacks: epoll, eventfd, accept4, variadic and macro-only calls.
// No _GNU_SOURCE here: it changes types that Swift's Glibc module also defines, and a file that
// sees both (through Foundation, or another C library) would not compile. GNU calls are declared
// by hand.
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
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

int pthread_setname_np(pthread_t thread, const char *name);
int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int pipe2(int ends[2], int flags);
static inline int parley_errno(void) { return errno; }
extern char **environ;
static inline char **parley_environment(void) { return environ; }
static inline int parley_accept(int fd, struct sockaddr *address, socklen_t *length) {
    return accept4(fd, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
static inline int parley_open_readonly(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC);
}
static inline int parley_epoll_control(
    int epoll, int operation, int fd, uint32_t events, uint64_t data) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = data;
    return epoll_ctl(epoll, operation, fd, &event);
}
