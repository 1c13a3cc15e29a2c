#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/shards.hpp"

namespace cohort {

/// Parameters and state of one version, put together from their shards.
struct Gathered {
    std::uint64_t id = 0;
    std::int64_t version = 0;
    std::vector<float> parameters;
    std::vector<float> state;
};

/// Receives the shards of snapshots (kGathered transfers), straight into their places.
class Gathering final : public TransferSink {
public:
    /// @param shards  of all parameters; others may be cut elsewhere, as the run goes on
    explicit Gathering(const std::vector<ShardRange>& shards);
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    ~Gathering() override;  ///< keeps the memory of parts that never came to their end

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// All bytes of an announced shard are there; the snapshot when it was the last one.
    /// Errors: PeerError when shards of different versions were sent.
    [[nodiscard]] std::optional<Gathered> arrived(const Message& announcement);
    /// Parts whose bytes are still coming in.
    [[nodiscard]] std::vector<int> coming();
    /// Parts of snapshot `id` that have not arrived.
    [[nodiscard]] std::vector<int> missing(std::uint64_t id);

private:
    /// Shards' floats: parameters, and the last one's state.
    struct Open {
        std::vector<std::unique_ptr<float[]>> parts;
        std::vector<std::size_t> floats;  ///< by part
        std::vector<bool> arrived;
        std::int64_t version = 0;
    };
    Open& open(std::uint64_t id);

    std::size_t shards_;
    std::size_t parameters_;
    std::size_t state_;
    std::mutex mutex_;  ///< accept() runs on the communication thread
    std::map<std::uint64_t, Open> open_;
};

}  // namespace cohort
