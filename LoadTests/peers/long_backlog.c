/* A library to preload: every listening socket of the program has the longest queue of waiting
   connections that the kernel allows. For servers without a setting of their own (Bun). */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

int listen(int descriptor, int backlog) {
    (void)backlog;
    /* The kernel caps it at net.core.somaxconn. */
    return (int)syscall(SYS_listen, descriptor, 65535);
}
