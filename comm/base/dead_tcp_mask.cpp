// What becomes of a TCP connection to a rank that died. Open MPI's TCP transport tries to repair a
// lost connection: it reconnects while messages are in flight on the old connection, fails, and
// then loops for ever, or ends the process. A dead rank is to look the same as over shared memory:
// it never answers. So for the threads that call MPI this file replaces the two calls through which
// that transport reads and writes: when a connection turns out to be broken they report that
// nothing can be done at present, and put in its place a socket that never has anything to read and
// never takes anything. The library asks no more; lost ranks are found elsewhere (peer_watch.hpp).
// All other calls work as ever.
//
// This works because a program's own readv and writev come before libc's for every library that it
// loads; CMakeLists.txt has them exported. Only programs that ask for it link this file, never
// whoever uses the library. Where MPI moves data by other calls the mask has no effect.
#include "comm/base/dead_tcp_mask.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace cohort {
namespace {

bool is_connection(int descriptor) noexcept {
    int domain = 0;
    socklen_t size = sizeof domain;
    return ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
           (domain == AF_INET || domain == AF_INET6);
}

/// One end of a pair whose other end is never read: once it is full nothing happens to it. -1 where
/// there is none. Made once, for the rest of the process's life.
int mute_socket() noexcept {
    static const int mute = [] {
        std::array<int, 2> ends{-1, -1};
        constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
        if (::socketpair(AF_UNIX, kType, 0, ends.data()) != 0) {
            return -1;
        }
        const std::array<std::byte, 4096> nothing{};
        while (::send(ends[0], nothing.data(), nothing.size(), MSG_NOSIGNAL) > 0) {
        }
        return ends[0];
    }();
    return mute;
}

bool broken(ssize_t result, bool reading) noexcept {
    if (result >= 0) {
        return reading && result == 0;
    }
    return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

/// What readv and writev answer. Keeps errno unless it mutes.
ssize_t answer(int descriptor, ssize_t result, bool reading) noexcept {
    if (!dead_tcp_masked || !broken(result, reading)) {
        return result;
    }
    const int error = errno;
    const bool muted = is_connection(descriptor) && mute_socket() >= 0 &&
                       ::dup3(mute_socket(), descriptor, O_CLOEXEC) >= 0;
    errno = muted ? EAGAIN : error;
    return muted ? -1 : result;
}

}  // namespace

}  // namespace cohort

extern "C" {

ssize_t readv(int descriptor, const iovec* parts, int count) {
    return cohort::answer(descriptor, ::syscall(SYS_readv, descriptor, parts, count), true);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
    return cohort::answer(descriptor, ::syscall(SYS_writev, descriptor, parts, count), false);
}
}
