#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "train/checkpoint/snapshot.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/server/server_staging.hpp"

namespace cohort {

/// Receives what is sent to a server: pushes, and the parts of other servers' shards that it is to
/// own. Those may come before the server knows the layout that they belong to.
class ServerSink final : public TransferSink {
public:
    /// @param pushes  outlives it
    explicit ServerSink(PushStaging& pushes) : pushes_(pushes) {}
    ServerSink(const ServerSink&) = delete;
    ServerSink& operator=(const ServerSink&) = delete;
    ~ServerSink() override;  ///< keeps the memory of parts that never came to their end

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// All bytes of a part have been received.
    void arrived(const ShardPartHeader& part);
    /// The server whose parts of a layout have been received.
    [[nodiscard]] bool has(std::uint32_t layout, int server) const;
    /// Hands one out: parameters, then the optimizer's slots.
    [[nodiscard]] std::vector<float> take(std::uint32_t layout, int server);

private:
    struct Part {
        std::vector<float> values;
        bool here = false;
    };
    using Parts = std::map<std::pair<std::uint32_t, int>, Part>;  ///< by layout and sender

    PushStaging& pushes_;
    mutable std::mutex mutex_;
    Parts parts_;
};

/// A server's part in a move of shards:
///  1. it sends every other server what that one will own of its shard
///  2. from what it keeps and what it receives it puts its new shard together
/// State stays with the last server.
class ShardExchange {
public:
    /// @param sink  outlives it
    ShardExchange(const CommContext& comm, int server, ServerSink& sink)
        : comm_(comm), server_(server), sink_(sink) {}

    /// @param before  layout in force  @param mine  this server's shard by it
    void begin(const ShardLayout& before, const ShardLayout& after, ShardSnapshot mine);
    [[nodiscard]] bool active() const noexcept { return mine_.has_value(); }
    /// The new shard, once all parts of it are here; the move is over then.
    [[nodiscard]] std::optional<ShardSnapshot> take();
    [[nodiscard]] const ShardLayout& layout() const noexcept { return after_; }

private:
    struct Awaited {
        int server = 0;
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };
    void send(int to, std::int64_t begin, std::int64_t end) const;

    const CommContext& comm_;
    int server_;
    ServerSink& sink_;
    ShardLayout after_;
    std::optional<ShardSnapshot> mine_;
    std::vector<Awaited> awaited_;
    std::optional<OperationBoard::Wait> wait_;
};

}  // namespace cohort
