#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cohort/comm/membership.hpp"
#include "cohort/comm/messenger.hpp"
#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"

namespace cohort::test {

/// Who belongs to the job of a LocalNetwork; all of its ranks ask the same one. Tests say what
/// happens to ranks.
class LocalMembership final : public Membership {
public:
    explicit LocalMembership(int ranks)
        : lost_(static_cast<std::size_t>(ranks)), excluded_(static_cast<std::size_t>(ranks)) {}

    [[nodiscard]] bool excluded(int rank) const override { return excluded_.at(index(rank)); }
    [[nodiscard]] std::uint64_t epoch() const override { return epoch_; }
    void watch(std::function<void(const RankEvent&)> watcher) override {
        const std::lock_guard lock(mutex_);
        watcher_ = std::move(watcher);
    }
    void exclude(int rank) override { change(rank, true); }
    void admit(int rank) override { change(rank, false); }

    /// From now on nothing that `rank` sends arrives, nor what is sent to it; the watcher is told
    /// that it is silent.
    void lose(int rank, bool dead = false) {
        lost_.at(index(rank)) = true;
        tell({.rank = rank,
              .kind = RankEvent::Kind::kSilent,
              .dead = dead,
              .reason = "rank " + std::to_string(rank) + (dead ? " has died" : " is lost")});
    }
    /// `rank` was frozen: what it sends arrives again. The watcher is told if it was excluded.
    void come_back(int rank) {
        lost_.at(index(rank)) = false;
        if (excluded(rank)) {
            tell({.rank = rank,
                  .kind = RankEvent::Kind::kReturned,
                  .reason = "rank " + std::to_string(rank) + " has come back"});
        }
    }
    [[nodiscard]] bool lost(int rank) const { return lost_.at(index(rank)); }
    /// Whether what `from` sends to `to` arrives.
    [[nodiscard]] bool connected(int from, int to) const {
        return from == to || !(lost(from) || lost(to) || excluded(from) || excluded(to));
    }

private:
    static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
    void change(int rank, bool excluded) {
        if (excluded_.at(index(rank)).exchange(excluded) != excluded) {
            ++epoch_;
        }
    }
    void tell(const RankEvent& event) {
        std::function<void(const RankEvent&)> watcher;
        {
            const std::lock_guard lock(mutex_);
            watcher = watcher_;
        }
        if (watcher) {
            watcher(event);
        }
    }

    std::mutex mutex_;
    std::function<void(const RankEvent&)> watcher_;
    std::vector<std::atomic<bool>> lost_;
    std::vector<std::atomic<bool>> excluded_;
    std::atomic<std::uint64_t> epoch_{0};
};

/// A job's ranks inside one process, so that roles can be tested on threads without MPI. Messages
/// arrive at once; a transfer's bytes arrive chunk by chunk as they are released, copied by the
/// thread that releases them. Sinks of one rank are asked one at a time, as by a communication
/// thread. Must outlive whatever its messengers' transfers point to.
class LocalNetwork {
public:
    /// @param servers ranks 0..servers-1 are servers, as in RankMap
    /// @param chunk_bytes transfers arrive in pieces of this size
    explicit LocalNetwork(int ranks, int servers = 0, std::uint64_t chunk_bytes = 4096,
                          double stall_limit_s = 60);
    LocalNetwork(const LocalNetwork&) = delete;
    LocalNetwork& operator=(const LocalNetwork&) = delete;
    ~LocalNetwork();

    [[nodiscard]] Messenger& messenger(int rank);
    [[nodiscard]] OperationBoard& operations(int rank) {
        return *boards_.at(static_cast<std::size_t>(rank));
    }
    [[nodiscard]] const RankMap& map() const noexcept { return map_; }
    /// Of all ranks. Messages and transfers to and from a lost or excluded rank do not arrive.
    [[nodiscard]] LocalMembership& membership() noexcept { return membership_; }

private:
    class LocalTransfer;
    class LocalMessenger;

    [[nodiscard]] LocalMessenger& at(int rank);

    std::uint64_t chunk_bytes_;
    RankMap map_;
    LocalMembership membership_;
    std::vector<std::unique_ptr<LocalMessenger>> ranks_;
    std::vector<std::unique_ptr<OperationBoard>> boards_;
};

class LocalNetwork::LocalMessenger final : public Messenger {
public:
    LocalMessenger(LocalNetwork& network, int rank) : network_(network), rank_(rank) {}

    [[nodiscard]] int rank() const noexcept override { return rank_; }
    void send(Address to, Port from, std::uint16_t kind, std::vector<std::byte> body) override;
    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port from, std::uint16_t kind, std::vector<std::byte> body,
        std::span<const std::byte> data, ChunkOrder order,
        std::shared_ptr<const void> owner) override;
    [[nodiscard]] Mailbox& mailbox(Port port) override {
        return mailboxes_.at(static_cast<std::size_t>(port));
    }
    void set_sink(Port port, TransferSink* sink) override {
        const std::lock_guard lock(sink_mutex_);
        sinks_.at(static_cast<std::size_t>(port)) = sink;
    }
    [[nodiscard]] TrafficCounters counters() const override {
        return {.bytes_sent = bytes_sent_,
                .bytes_received = bytes_received_,
                .messages_sent = messages_sent_,
                .messages_received = messages_received_};
    }

private:
    friend class LocalTransfer;

    std::span<std::byte> accept(Port port, const Message& announcement, std::uint64_t bytes) {
        const std::lock_guard lock(sink_mutex_);
        TransferSink* sink = sinks_.at(static_cast<std::size_t>(port));
        if (sink == nullptr || bytes == 0) {
            return {};
        }
        const std::span<std::byte> memory = sink->accept(announcement, bytes);
        if (!memory.empty() && memory.size() != bytes) {
            throw std::logic_error("the sink's memory has another size than the transfer");
        }
        return memory;
    }

    LocalNetwork& network_;
    int rank_;
    std::array<Mailbox, kPorts> mailboxes_;
    std::mutex sink_mutex_;
    std::array<TransferSink*, kPorts> sinks_{};
    std::atomic<std::uint64_t> bytes_sent_{0};
    std::atomic<std::uint64_t> bytes_received_{0};
    std::atomic<std::uint64_t> messages_sent_{0};
    std::atomic<std::uint64_t> messages_received_{0};
};

class LocalNetwork::LocalTransfer final : public OutgoingTransfer {
public:
    LocalTransfer(LocalMessenger& from, Address to, Message announcement,
                  std::span<const std::byte> data, ChunkOrder order,
                  std::shared_ptr<const void> owner)
        : from_(from),
          receiver_(from.network_.at(to.rank)),
          port_(to.port),
          announcement_(std::move(announcement)),
          data_(data),
          order_(order),
          owner_(std::move(owner)) {
        if (!connected()) {  // nothing is announced
            owner_.reset();
            done_ = true;
            return;
        }
        to_ = receiver_.accept(port_, announcement_, data.size());
        release(0);  // an empty transfer is complete
    }

    void release(std::uint64_t bytes) override {
        const std::lock_guard lock(mutex_);
        if (done_ || !connected()) {  // under way when a rank was lost: it stays so
            return;
        }
        released_ = std::max(released_, std::min<std::uint64_t>(bytes, data_.size()));
        const std::uint64_t chunk = from_.network_.chunk_bytes_;
        while (sent_ < data_.size() && (released_ == data_.size() || released_ - sent_ >= chunk)) {
            copy(std::min<std::uint64_t>(chunk, data_.size() - sent_));
        }
        if (sent_ == data_.size()) {
            finish();
        }
    }
    [[nodiscard]] bool done() const override { return done_; }

private:
    [[nodiscard]] bool connected() const {
        return from_.network_.membership().connected(from_.rank(), receiver_.rank());
    }
    void copy(std::uint64_t bytes) {
        const std::uint64_t at =
            order_ == ChunkOrder::kForward ? sent_ : data_.size() - sent_ - bytes;
        if (!to_.empty()) {
            std::memcpy(to_.data() + at, data_.data() + at, bytes);
        }
        sent_ += bytes;
    }

    void finish() {
        if (&from_ != &receiver_) {
            from_.bytes_sent_ += data_.size();
            ++from_.messages_sent_;
            receiver_.bytes_received_ += data_.size();
            ++receiver_.messages_received_;
        }
        done_ = true;
        owner_.reset();
        receiver_.mailbox(port_).put(std::move(announcement_));
    }

    LocalMessenger& from_;
    LocalMessenger& receiver_;
    Port port_;
    Message announcement_;
    std::span<const std::byte> data_;
    ChunkOrder order_;
    std::shared_ptr<const void> owner_;
    std::span<std::byte> to_;
    std::mutex mutex_;
    std::uint64_t released_ = 0;
    std::uint64_t sent_ = 0;
    std::atomic<bool> done_{false};
};

inline void LocalNetwork::LocalMessenger::send(Address to, Port from, std::uint16_t kind,
                                               std::vector<std::byte> body) {
    LocalMessenger& receiver = network_.at(to.rank);
    if (!network_.membership().connected(rank_, to.rank)) {
        return;
    }
    if (&receiver != this) {
        bytes_sent_ += body.size();
        ++messages_sent_;
        receiver.bytes_received_ += body.size();
        ++receiver.messages_received_;
    }
    receiver.mailbox(to.port).put({{rank_, from}, kind, std::move(body)});
}

inline std::shared_ptr<OutgoingTransfer> LocalNetwork::LocalMessenger::start_transfer(
    Address to, Port from, std::uint16_t kind, std::vector<std::byte> body,
    std::span<const std::byte> data, ChunkOrder order, std::shared_ptr<const void> owner) {
    return std::make_shared<LocalTransfer>(*this, to, Message{{rank_, from}, kind, std::move(body)},
                                           data, order, std::move(owner));
}

inline LocalNetwork::LocalNetwork(int ranks, int servers, std::uint64_t chunk_bytes,
                                  double stall_limit_s)
    : chunk_bytes_(chunk_bytes), membership_(ranks) {
    map_.servers = servers;
    for (int rank = 0; rank < ranks; ++rank) {
        map_.ranks.push_back({.rank = rank,
                              .host = "local",
                              .pid = getpid(),
                              .node_rank = rank,
                              .role = rank < servers ? Role::kServer : Role::kWorker});
        ranks_.push_back(std::make_unique<LocalMessenger>(*this, rank));
        boards_.push_back(std::make_unique<OperationBoard>(Clock::Seconds(stall_limit_s),
                                                           std::make_shared<SteadyClock>()));
    }
}

inline LocalNetwork::~LocalNetwork() = default;

inline Messenger& LocalNetwork::messenger(int rank) {
    return at(rank);
}

inline LocalNetwork::LocalMessenger& LocalNetwork::at(int rank) {
    return *ranks_.at(static_cast<std::size_t>(rank));
}

}  // namespace cohort::test
