#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "comm/transfer/requests.hpp"
#include "comm/transfer/transfer_link.hpp"

namespace cohort {

/// The receiving side of transfers from other ranks. On the communication thread.
class TransferReceiver {
public:
    TransferReceiver(TransferLink& link, RequestPool& requests)
        : link_(link), requests_(requests) {}

    void announced(Packet&& packet);
    /// True when anything moved.
    bool poll();
    void abandon(int rank);

private:
    struct Incoming {
        Message announcement;
        int source = 0;
        int tag = 0;
        Port to = Port::kWorker;
        ChunkPlan plan;
        std::span<std::byte> memory;  ///< null: refused
        std::uint64_t next = 0;       ///< chunk to post
        std::uint64_t left = 0;       ///< chunks not yet received
        int in_flight = 0;
        bool has_tag = false;
        bool abandoned = false;
    };
    bool post(const std::shared_ptr<Incoming>& transfer);
    void post_chunk(const std::shared_ptr<Incoming>& transfer, std::uint64_t begin,
                    std::uint64_t bytes);
    void complete(const std::shared_ptr<Incoming>& transfer);

    TransferLink& link_;
    RequestPool& requests_;
    std::set<std::pair<int, int>> tags_;  ///< in use: rank, tag
    std::list<std::shared_ptr<Incoming>> transfers_;
};

}  // namespace cohort
