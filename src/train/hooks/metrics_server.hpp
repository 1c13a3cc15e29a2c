#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// Answers `GET /metrics` on the loopback address (127.0.0.1) with the newest text, in HTTP/1.0 and
/// in a thread of its own, which sleeps until somebody connects. A client that is slow or sends
/// nonsense delays nobody: it is disconnected after kPatience.
class MetricsServer {
public:
    static constexpr Clock::Seconds kPatience{2};  ///< for all of a request and its answer
    static constexpr std::size_t kMostClients = 16;

    /// @param port  0: a free one. Errors: UsageError when it is taken or not allowed.
    explicit MetricsServer(int port);
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;
    ~MetricsServer();

    [[nodiscard]] int port() const noexcept { return port_; }
    /// From now on this is the answer. Never waits for a client.
    void publish(std::string text);

private:
    struct Client {
        FileDescriptor socket;
        Clock::Seconds until{0};  ///< when it is disconnected
        std::string request;
        std::string answer;  ///< what is left of it; empty: the request is not complete
    };

    void serve();
    void accept_clients();
    /// @return whether more is to be read from or written to the client
    [[nodiscard]] bool attend(Client& client);
    [[nodiscard]] std::string answer_to(const std::string& request);
    [[nodiscard]] std::string answer_to_get(std::string_view method, std::string_view rest);

    FileDescriptor listener_;
    FileDescriptor stop_;  ///< an event that ends the thread
    int port_ = 0;
    std::mutex mutex_;
    std::shared_ptr<const std::string> text_ = std::make_shared<const std::string>();
    SteadyClock clock_;
    std::vector<Client> clients_;  ///< the thread's
    bool refused_ = false;         ///< the last client was not accepted for a reason that may last
    std::thread thread_;
};

}  // namespace cohort
