// The reference of the echo benchmark: it echoes bytes over one level-triggered epoll, with one
// recv and one send per event. No server that reads and writes sockets can be faster. It knows no
// protocol and keeps no state: when a socket is full, it waits.
//
// cc -O2 -o tcp_echo tcp_echo.c && ./tcp_echo PORT
#include "peer.h"

int main(int count, char **arguments) {
    int listener = peer_listen(count, arguments);
    int epoll = peer_epoll(listener);
    static char bytes[64 * 1024];
    struct epoll_event events[512];
    for (;;) {
        int reports = epoll_wait(epoll, events, 512, -1);
        for (int index = 0; index < reports; index++) {
            int fd = events[index].data.fd;
            if (fd == listener) {
                peer_accept(epoll, listener);
                continue;
            }
            ssize_t received = recv(fd, bytes, sizeof bytes, 0);
            if (received < 0 && errno == EAGAIN) continue;
            if (received <= 0 || !peer_send(fd, bytes, (size_t)received)) close(fd);
        }
    }
}
