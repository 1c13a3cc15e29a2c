#include "train/hooks/metrics_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostRequestBytes = 8192;
/// How long clients wait where the process has no file descriptor left for them.
constexpr int kRefusedMs = 1000;

[[noreturn]] void fail_port(int port, const char* what) {
    fail<UsageError>({.where = fmt::format("--metrics-port {}", port),
                      .what = what,
                      .got = errno_text(errno),
                      .hint = "another port, or 0 for a free one"});
}

/// @param more  headers, each with its end of line
std::string response(std::string_view status, std::string_view type, std::string_view body,
                     std::string_view more = {}) {
    return fmt::format(
        "HTTP/1.0 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
        status, type, body.size(), more, body);
}

std::string refusal(std::string_view status, std::string_view more = {}) {
    return response(status, "text/plain; charset=utf-8", fmt::format("{}\n", status), more);
}

}  // namespace

MetricsServer::MetricsServer(int port)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!listener_.valid() || !stop_.valid()) {
        fail_port(port, "no socket");
    }
    const int yes = 1;  // a port that an ended run has used is free at once
    (void)::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    if (::bind(listener_.get(), generic, length) != 0 ||
        ::listen(listener_.get(), static_cast<int>(kMostClients)) != 0 ||
        ::getsockname(listener_.get(), generic, &length) != 0) {
        fail_port(port, "nobody can be served there");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(stop_.get(), &one, sizeof one) < 0);  // room for one is always there
    thread_.join();
}

void MetricsServer::publish(std::string text) {
    auto next = std::make_shared<const std::string>(std::move(text));
    const std::lock_guard lock(mutex_);
    text_.swap(next);
}

void MetricsServer::serve() {
    for (;;) {
        std::vector<pollfd> waiting{{stop_.get(), POLLIN, 0}};
        int limit_ms = -1;
        for (const Client& client : clients_) {
            const short events = client.answer.empty() ? POLLIN : POLLOUT;
            waiting.push_back({client.socket.get(), events, 0});
            const double left_ms = (client.until - clock_.now()).count() * 1e3;
            const int at_most = std::max(0, static_cast<int>(left_ms) + 1);
            limit_ms = limit_ms < 0 ? at_most : std::min(limit_ms, at_most);
        }
        if (refused_) {
            limit_ms = limit_ms < 0 ? kRefusedMs : std::min(limit_ms, kRefusedMs);
        } else if (clients_.size() < kMostClients) {
            waiting.push_back({listener_.get(), POLLIN, 0});
        }
        if (::poll(waiting.data(), waiting.size(), limit_ms) < 0 && errno != EINTR) {
            return;
        }
        if (waiting.front().revents != 0) {
            return;
        }
        std::size_t index = 0;
        std::erase_if(clients_, [&](Client& client) {
            const bool ready = waiting[++index].revents != 0;
            return (ready && !attend(client)) || clock_.now() >= client.until;
        });
        if (clients_.size() < kMostClients) {
            accept_clients();
        }
    }
}

void MetricsServer::accept_clients() {
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    refused_ = !socket.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    if (socket.valid()) {
        clients_.push_back({.socket = std::move(socket),
                            .until = clock_.now() + kPatience,
                            .request = {},
                            .answer = {}});
    }
}

bool MetricsServer::attend(Client& client) {
    const int socket = client.socket.get();
    if (client.answer.empty()) {
        std::array<char, 1024> bytes{};
        const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), 0);
        if (count <= 0) {
            return count < 0 && (errno == EAGAIN || errno == EINTR);
        }
        client.request.append(bytes.data(), static_cast<std::size_t>(count));
        if (client.request.size() > kMostRequestBytes) {
            client.answer = refusal("431 Request Header Fields Too Large");
        } else if (client.request.find("\r\n\r\n") != std::string::npos ||
                   client.request.find("\n\n") != std::string::npos) {
            client.answer = answer_to(client.request);
        } else {
            return true;
        }
    }
    const ssize_t count = ::send(socket, client.answer.data(), client.answer.size(), MSG_NOSIGNAL);
    if (count < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    client.answer.erase(0, static_cast<std::size_t>(count));
    return !client.answer.empty();
}

std::string MetricsServer::answer_to(const std::string& request) {
    const std::string_view line =
        std::string_view(request).substr(0, request.find_first_of("\r\n"));
    const std::size_t method = line.find(' ');
    if (method == std::string_view::npos || method == 0) {
        return refusal("400 Bad Request");
    }
    const bool head = line.substr(0, method) == "HEAD";
    std::string answer = answer_to_get(head ? std::string_view("GET") : line.substr(0, method),
                                       line.substr(method + 1));
    if (head) {  // as GET, without the body
        answer.resize(answer.find("\r\n\r\n") + 4);
    }
    return answer;
}

std::string MetricsServer::answer_to_get(std::string_view method, std::string_view rest) {
    if (method != "GET") {
        return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    const std::string_view path = rest.substr(0, rest.find_first_of(" ?"));
    if (path != "/metrics") {
        return refusal("404 Not Found");
    }
    const std::lock_guard lock(mutex_);
    return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", *text_);
}

}  // namespace cohort
