// The reference of the instruction count: the cost of a WebSocket echo in C. One epoll,
// level-triggered. For each event there is one recv; every whole frame is unmasked and written,
// header and payload, to a buffer; then there is one send. The beginning of an incomplete frame is
// kept. It does as little else as possible: no limits, no fragments, no UTF-8 checks, no deadlines.
//
// cc -O2 -o websocket_echo websocket_echo.c -lcrypto && ./websocket_echo PORT
#include "peer.h"

#include <endian.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <string.h>

enum { kept_bytes_max = 4096, connections_max = 65536, buffer_bytes = 64 * 1024 };

/// The bytes of an incomplete frame or request.
struct kept {
    size_t count;
    char bytes[kept_bytes_max];
};

struct connection {
    bool is_open, is_closing;
    struct kept *kept;
};

static struct connection connections[connections_max];
static char input[kept_bytes_max + buffer_bytes], output[kept_bytes_max + buffer_bytes];

/// Unmasks `count` bytes of `from` into `to`.
static void unmask(char *to, const char *from, size_t count, uint32_t mask) {
    uint64_t key = (uint64_t)mask << 32 | mask;
    size_t index = 0;
    for (; index + 8 <= count; index += 8) {
        uint64_t word;
        memcpy(&word, from + index, 8);
        word ^= key;
        memcpy(to + index, &word, 8);
    }
    for (; index < count; index++) to[index] = from[index] ^ (char)(mask >> 8 * (index % 4));
}

/// Writes the echo of the first frame to `out`, and the echo's length to `written`.
/// Returns the frame's length, 0 when it is incomplete, -1 when it is invalid.
static ssize_t echo_frame(const char *frame, size_t available, char *out, size_t *written) {
    if (available < 2) return 0;
    const unsigned char *byte = (const unsigned char *)frame;
    if (byte[0] & 0x70 || !(byte[1] & 0x80)) return -1;
    size_t count = byte[1] & 0x7F, header = 2;
    if (count == 126) {
        if (available < 4) return 0;
        count = (size_t)byte[2] << 8 | byte[3];
        header = 4;
    } else if (count == 127) {
        return -1;
    }
    if (available < header + 4 + count) return 0;
    uint32_t mask;
    memcpy(&mask, frame + header, 4);
    memcpy(out, frame, header);
    out[1] &= 0x7F;
    unmask(out + header, frame + header + 4, count, le32toh(mask));
    *written = header + count;
    return (ssize_t)(header + 4 + count);
}

/// Answers the opening handshake. Returns the request's length, or 0 when it is incomplete.
static ssize_t accept_upgrade(const char *request, size_t available, char *out, size_t *written) {
    const char *end = memmem(request, available, "\r\n\r\n", 4);
    if (!end) return 0;
    static const char field[] = "Sec-WebSocket-Key: ";
    const char *key = memmem(request, available, field, sizeof field - 1);
    if (!key || end - key < (ssize_t)sizeof field + 23) return -1;
    char proof[60];
    memcpy(proof, key + sizeof field - 1, 24);
    memcpy(proof + 24, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 36);
    unsigned char digest[20], text[29];
    SHA1((const unsigned char *)proof, 60, digest);
    EVP_EncodeBlock(text, digest, 20);
    *written = (size_t)sprintf(
        out,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %s\r\n\r\n",
        text);
    return end + 4 - request;
}

/// Handles one event; returns false when the connection is over.
static bool handle(int fd, struct connection *connection) {
    size_t before = 0;
    if (connection->kept) {
        before = connection->kept->count;
        memcpy(input, connection->kept->bytes, before);
        free(connection->kept);
        connection->kept = NULL;
    }
    ssize_t received = recv(fd, input + before, buffer_bytes, 0);
    if (received <= 0) return received < 0 && errno == EAGAIN && before == 0;
    size_t count = before + (size_t)received, used = 0, filled = 0;
    while (used < count && !connection->is_closing) {
        size_t written = 0;
        ssize_t taken =
            connection->is_open
                ? echo_frame(input + used, count - used, output + filled, &written)
                : accept_upgrade(input + used, count - used, output + filled, &written);
        if (taken < 0) return false;
        if (taken == 0) break;
        // Nothing is sent after the echo of a Close.
        connection->is_closing = connection->is_open && (input[used] & 0x0F) == 8;
        connection->is_open = true;
        used += (size_t)taken;
        filled += written;
    }
    if (used < count) {
        if (count - used > kept_bytes_max) return false;
        connection->kept = malloc(sizeof *connection->kept);
        connection->kept->count = count - used;
        memcpy(connection->kept->bytes, input + used, count - used);
    }
    return (filled == 0 || peer_send(fd, output, filled)) && !connection->is_closing;
}

int main(int count, char **arguments) {
    int listener = peer_listen(count, arguments);
    int epoll = peer_epoll(listener);
    struct epoll_event events[512];
    for (;;) {
        int reports = epoll_wait(epoll, events, 512, -1);
        for (int index = 0; index < reports; index++) {
            int fd = events[index].data.fd;
            if (fd == listener) {
                int accepted = peer_accept(epoll, listener);
                if (accepted >= connections_max) close(accepted);
                else if (accepted >= 0) connections[accepted] = (struct connection){0};
            } else if (!handle(fd, &connections[fd])) {
                free(connections[fd].kept);
                connections[fd].kept = NULL;
                close(fd);
            }
        }
    }
}
