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
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <exception>
#include <string>
#include <utility>
#include <vector>

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

std::string peer_of(int descriptor) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    std::array<char, NI_MAXHOST> host{};
    const bool known =
        is_connection(descriptor) && ::getpeername(descriptor, any, &size) == 0 &&
        ::getnameinfo(any, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    return known ? host.data() : "";
}

/// Looks at most once a second: a descriptor's connection may be another one by now. Once a
/// connection has been reset the system does not tell its other end any more.
void note_peer(int descriptor) {
    thread_local std::vector<std::time_t> looked_s;  // by descriptor
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const auto index = static_cast<std::size_t>(descriptor);
    if (index >= looked_s.size()) {
        looked_s.resize(index + 1);
    }
    if (std::exchange(looked_s[index], now.tv_sec) != now.tv_sec) {
        tcp_connections().seen(descriptor, peer_of(descriptor));
    }
}

void tell_end(int descriptor, ssize_t result) {
    if (result == 0 || errno == ECONNRESET || errno == EPIPE) {
        tcp_connections().ended(descriptor);
    }
}

/// What is seen of a connection besides what is read and written. Keeps errno.
void observe(int descriptor, ssize_t result, bool over) noexcept {
    const int error = errno;
    try {
        if (over) {
            tell_end(descriptor, result);
        } else if (result > 0) {
            note_peer(descriptor);
        }
    } catch (const std::exception&) {
        errno = error;  // no memory: silence will tell
    }
    errno = error;
}

/// What readv and writev answer. Keeps errno unless it mutes.
ssize_t answer(int descriptor, ssize_t result, bool reading) noexcept {
    if (!dead_tcp_masked) {
        return result;
    }
    const bool over = broken(result, reading);
    observe(descriptor, result, over);
    if (!over) {
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
