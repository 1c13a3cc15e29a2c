#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "train/mirror/mirror_store.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

/// Messages to Port::kMirror.
enum class MirrorMessage : std::uint16_t {
    kPart = 1,  ///< transfer: the floats of a MirrorHeader
    kBooks,     ///< MirrorBooks, from the coordinator
    kEnd,       ///< from this rank: the keeper ends
    // When a World has followed another one (mirror_recovery.cpp):
    kHeld,    ///< to rank 0
    kWrite,   ///< from rank 0
    kWritten  ///< to rank 0
};

/// A rank that holds the parts of `owner` besides itself, not excluded: of another host where there
/// is one, a worker where there is one, others for other owners; the owner itself when there is
/// none.
[[nodiscard]] int mirror_holder(const RankMap& map, const Membership* membership, int owner);

/// Sends parts of mirrors to their holders. On the threads that write checkpoints.
class MirrorSender {
public:
    /// @param store  outlives it
    MirrorSender(CommContext comm, MirrorStore& store) : comm_(comm), store_(store) {}
    /// Keeps a part here, and returns when it has left for its holder, or the holder is lost.
    void send(const std::string& mirror, const ShardSnapshot& snapshot) const;

private:
    CommContext comm_;
    MirrorStore& store_;
};

/// Nothing where this process holds no mirrors.
[[nodiscard]] std::optional<MirrorSender> mirror_sender(const CommContext& comm);

/// Takes what other ranks send of mirrors into this process's store, on a thread that sleeps until
/// something comes.
class MirrorKeeper final : public TransferSink {
public:
    /// @param store  outlives it
    MirrorKeeper(CommContext comm, MirrorStore& store);
    MirrorKeeper(const MirrorKeeper&) = delete;
    MirrorKeeper& operator=(const MirrorKeeper&) = delete;
    ~MirrorKeeper() override;  ///< keeps the memory of parts that never came to their end

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;

private:
    void run();
    void arrived(const Message& message);

    CommContext comm_;
    MirrorStore& store_;
    std::mutex mutex_;
    /// Parts whose floats are being received, in the order of their announcements.
    struct Coming {
        Address from;
        std::vector<std::byte> header;
        std::shared_ptr<std::vector<float>> floats;
    };
    std::vector<Coming> coming_;
    std::thread thread_;
};

}  // namespace cohort
