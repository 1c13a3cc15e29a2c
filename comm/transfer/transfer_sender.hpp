#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/transfer/requests.hpp"
#include "comm/transfer/transfer_link.hpp"

namespace cohort {

/// A transfer as its sender sees it.
class Outgoing final : public OutgoingTransfer {
public:
    Address to;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
    ChunkPlan plan;
    PacketHeader header;
    std::vector<std::byte> body;
    std::function<void()> changed;  ///< called after a release, on any thread

    void release(std::uint64_t bytes) override;
    [[nodiscard]] bool done() const override { return done_.load(); }
    [[nodiscard]] std::uint64_t released() const noexcept { return released_.load(); }
    void finish();

    std::uint64_t next = 0;  ///< chunk to start, communication thread only
    std::uint64_t left = 0;  ///< chunks not yet sent, communication thread only
    int in_flight = 0;       ///< communication thread only
    bool abandoned = false;  ///< its receiver was lost meanwhile, communication thread only

private:
    std::atomic<std::uint64_t> released_{0};
    std::atomic<bool> done_{false};
};

/// The sending side of transfers to other ranks. On the communication thread.
class TransferSender {
public:
    TransferSender(TransferLink& link, RequestPool& requests) : link_(link), requests_(requests) {}

    /// The announcement (transfer.header) is then ready to be sent.
    void start(std::shared_ptr<Outgoing> transfer);
    /// True when anything moved.
    bool poll();
    void abandon(int rank);
    [[nodiscard]] bool sent_all() const noexcept;

private:
    [[nodiscard]] int next_tag(int rank);
    bool push(const std::shared_ptr<Outgoing>& transfer);

    TransferLink& link_;
    RequestPool& requests_;
    int last_tag_ = 0;
    std::set<std::pair<int, int>> tags_;  ///< in use: rank, tag
    std::list<std::shared_ptr<Outgoing>> transfers_;
};

/// Transfers within this rank. On the communication thread.
class LocalTransfers {
public:
    explicit LocalTransfers(TransferLink& link) : link_(link) {}

    void start(std::shared_ptr<Outgoing> transfer);
    bool poll();
    [[nodiscard]] bool moving() const noexcept { return moving_; }
    [[nodiscard]] bool empty() const noexcept { return transfers_.empty(); }

private:
    struct Local {
        std::shared_ptr<Outgoing> transfer;
        std::span<std::byte> memory;
    };
    static bool copy(Local& local);
    [[nodiscard]] Message announcement(const Outgoing& transfer) const;

    TransferLink& link_;
    bool moving_ = false;
    std::list<Local> transfers_;
};

}  // namespace cohort
