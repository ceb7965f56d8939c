#include "whatif/recorder/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/point.h"

static int connection = -1, own_rank;
static int64_t sent; /* number of operations that have been sent */

bool plb_monitor_is_open(void)
{
    return connection >= 0;
}

void plb_monitor_close(void)
{
    if (connection >= 0) {
        close(connection);
    }
    connection = -1;
}

static bool write_all(const void *data, size_t n)
{
    const char *at = data;
    while (n > 0) {
        const ssize_t done = send(connection, at, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        at += done;
        n -= (size_t)done;
    }
    return true;
}

void plb_frame(char type, const void *data, uint32_t length)
{
    if (connection < 0) {
        return;
    }
    const struct {
        uint32_t type, length;
        /* number of the frame's first operation, so that the monitor notices gaps */
        int64_t first;
    } head = {(uint32_t)type, length, sent};
    if (!write_all(&head, sizeof head) || !write_all(data, length)) {
        fprintf(stderr, "pylb record: rank %d lost its monitor (%s): the recording stops here\n",
                own_rank, strerror(errno));
        plb_monitor_close();
    }
}

void plb_frame_text(char type, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const locale_t before = plb_point_begin();
    const int n = vsnprintf(text, sizeof text, fmt, args);
    plb_point_end(before);
    va_end(args);
    plb_frame(type, text, (uint32_t)(n < (int)sizeof text ? n : (int)sizeof text - 1));
}

void plb_frame_ops(const void *op, int32_t n, uint32_t size)
{
    plb_frame('O', op, (uint32_t)n * size);
    sent += n;
}

int64_t plb_monitor_sent(void)
{
    return sent;
}

/* PYLB_RECORDER is address:port, without the secret token: this variable appears in command lines,
 * which every user can read. */
bool plb_monitor_reach(int rank)
{
    own_rank = rank;
    char text[128] = "";
    const char *where = getenv("PYLB_RECORDER"), *token = getenv("OMPI_PYLB_TOKEN");
    if (where == NULL || token == NULL) {
        return false;
    }
    snprintf(text, sizeof text, "%s", where);
    char *port = strchr(text, ':');
    if (port == NULL) {
        return false;
    }
    *port++ = '\0';
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    const int yes = 1, large = 1 << 22;
    connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || inet_pton(AF_INET, text, &to.sin_addr) != 1 ||
        connect(connection, (struct sockaddr *)&to, sizeof to) != 0) {
        fprintf(stderr, "pylb record: no monitor at %s:%s: this rank is not recorded\n", text,
                port);
        plb_monitor_close();
        return false;
    }
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    if (!write_all(token, strlen(token)) || !write_all("\n", 1)) {
        plb_monitor_close();
    }
    return connection >= 0;
}
