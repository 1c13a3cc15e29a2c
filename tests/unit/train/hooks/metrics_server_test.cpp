#include "train/hooks/metrics_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A client of a server.
class Connection {
public:
    explicit Connection(int port)
        : Connection(port, FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {}
    Connection(int port, FileDescriptor socket) : socket_(std::move(socket)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        EXPECT_EQ(
            ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
    }
    void send(std::string_view text) const {
        EXPECT_GE(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL), 0);
    }
    /// All that comes until the server hangs up.
    [[nodiscard]] std::string rest() const {
        std::string all;
        std::array<char, 4096> bytes{};
        for (ssize_t count = 0;
             (count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0)) > 0;) {
            all.append(bytes.data(), static_cast<std::size_t>(count));
        }
        return all;
    }

private:
    FileDescriptor socket_;
};

std::string answer(int port, std::string_view request) {
    const Connection client(port);
    client.send(request);
    return client.rest();
}

TEST(MetricsServer, AnswersWithTheNewestText) {
    MetricsServer server(0);
    EXPECT_GT(server.port(), 0);
    server.publish("a 1\n");
    server.publish("a 2\n");
    const std::string text = answer(server.port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(text, StartsWith("HTTP/1.0 200 OK\r\n"));
    EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    EXPECT_THAT(text, HasSubstr("Content-Length: 4\r\n"));
    EXPECT_THAT(text, EndsWith("\r\n\r\na 2\n"));
    EXPECT_THAT(answer(server.port(), "GET /metrics?x=1 HTTP/1.0\n\n"), EndsWith("a 2\n"));
}

/// RFC 9110: the header of the answer to GET, without its content.
TEST(MetricsServer, AnswersHeadWithoutTheText) {
    MetricsServer server(0);
    server.publish("a 1\n");
    const std::string get = answer(server.port(), "GET /metrics HTTP/1.0\r\n\r\n");
    const std::string head = answer(server.port(), "HEAD /metrics HTTP/1.0\r\n\r\n");
    EXPECT_THAT(head, EndsWith("\r\n\r\n"));
    EXPECT_EQ(head + "a 1\n", get);
    EXPECT_EQ(answer(server.port(), "HEAD / HTTP/1.0\r\n\r\n").substr(9, 3), "404");
}

TEST(MetricsServer, RefusesWhatIsNoScrape) {
    MetricsServer server(0);
    const auto status = [&](std::string_view request) {
        return answer(server.port(), request).substr(9, 3);
    };
    EXPECT_EQ(status("GET / HTTP/1.0\r\n\r\n"), "404");
    EXPECT_EQ(status("POST /metrics HTTP/1.0\r\n\r\n"), "405");
    EXPECT_THAT(answer(server.port(), "POST /metrics HTTP/1.0\r\n\r\n"),
                HasSubstr("\r\nAllow: GET, HEAD\r\n"));
    EXPECT_EQ(status("\r\n\r\n"), "400");
    EXPECT_EQ(status("nonsense\n\n"), "400");
    EXPECT_EQ(status(std::string(8193, 'x')), "431");
}

TEST(MetricsServer, AnswersOthersWhileAClientSaysNothing) {
    MetricsServer server(0);
    const std::string large(4 << 20, 'x');
    server.publish(large);
    const Connection silent(server.port());
    const Connection half(server.port());
    half.send("GET /metr");
    const Connection unread(server.port());
    unread.send("GET /metrics HTTP/1.0\r\n\r\n");
    EXPECT_THAT(answer(server.port(), "GET /metrics HTTP/1.0\r\n\r\n"), EndsWith(large));
    server.publish("b 1\n");
    EXPECT_THAT(answer(server.port(), "GET /metrics HTTP/1.0\r\n\r\n"), EndsWith("b 1\n"));
    EXPECT_EQ(silent.rest(), "") << "it is disconnected";
    EXPECT_EQ(half.rest(), "");
}

TEST(MetricsServer, MoreClientsThanItHasPlacesForWait) {
    MetricsServer server(0);
    server.publish("c 1\n");
    std::vector<std::unique_ptr<Connection>> idle;
    for (std::size_t i = 0; i < MetricsServer::kMostClients; ++i) {
        idle.push_back(std::make_unique<Connection>(server.port()));
    }
    EXPECT_THAT(answer(server.port(), "GET /metrics HTTP/1.0\r\n\r\n"), EndsWith("c 1\n"));
}

/// While it lives the process opens no file.
class NoDescriptors {
public:
    NoDescriptors() {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        const FileDescriptor lowest(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        rlimit none = before_;
        none.rlim_cur = static_cast<rlim_t>(lowest.get());
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;
    ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

private:
    rlimit before_{};
};

double processor_s() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

TEST(MetricsServer, WithoutDescriptorsClientsWaitAndItSleeps) {
    MetricsServer server(0);
    server.publish("d 1\n");
    std::unique_ptr<Connection> client;
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    {
        const NoDescriptors none;
        client = std::make_unique<Connection>(server.port(), std::move(socket));
        client->send("GET /metrics HTTP/1.0\r\n\r\n");
        const double before_s = processor_s();
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        EXPECT_LT(processor_s() - before_s, 0.1);
    }
    EXPECT_THAT(client->rest(), EndsWith("d 1\n"));
}

TEST(MetricsServer, APortThatIsTakenIsNamed) {
    const MetricsServer server(0);
    EXPECT_THAT([&] { MetricsServer(server.port()); },
                testing::ThrowsMessage<UsageError>(
                    HasSubstr("--metrics-port " + std::to_string(server.port()))));
}

TEST(MetricsServer, EndsWithClientsThere) {
    auto server = std::make_unique<MetricsServer>(0);
    const Connection client(server->port());
    client.send("GET ");
    server.reset();
    EXPECT_EQ(client.rest(), "");
}

}  // namespace
}  // namespace cohort
