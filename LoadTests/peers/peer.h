// Shared by the two C peers of the echo benchmark: the listener, the epoll, accepting, sending.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void peer_check(bool fine, const char *call) {
    if (fine) return;
    perror(call);
    exit(1);
}

/// Listens on 127.0.0.1 at the port that is the program's only argument.
static int peer_listen(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s PORT\n", arguments[0]);
        exit(2);
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(arguments[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    peer_check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    peer_check(listen(listener, 4096) == 0, "listen");
    return listener;
}

static void peer_watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    peer_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static int peer_epoll(int listener) {
    int epoll = epoll_create1(0);
    peer_check(epoll >= 0, "epoll_create1");
    peer_watch(epoll, listener);
    return epoll;
}

/// Accepts and watches one connection.
/// Returns it, or -1 when no connection waits.
static int peer_accept(int epoll, int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    peer_watch(epoll, fd);
    return fd;
}

/// Sends all bytes; returns false when the connection is broken. When the socket is full it waits,
/// which never happens in a closed loop.
static bool peer_send(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            poll(&room, 1, -1);
            continue;
        }
        if (sent <= 0) return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}
