#pragma once

#include <cstdint>

#include "session/ring/ring.hpp"
#include "train/coordinator/ring/ring_ids.hpp"
#include "train/coordinator/update_flow.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort {

/// What the parts of the coordinator's ring share.
struct RingContext {
    Links links;
    const JobParts& parts;
    RunBooks& books;
    Ring& ring;
    RingIds ids{};
    std::uint64_t epoch = 0;  ///< counts losses of members

    [[nodiscard]] UpdateEngine& engine() const { return books.engine(); }
    template <class Kind, class Body>
    void send(int worker, Kind kind, const Body& body) const {
        send_order(links, {links.map.rank_of_worker(worker), Port::kWorker}, kind, body);
    }
};

}  // namespace cohort
