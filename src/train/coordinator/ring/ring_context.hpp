#pragma once

#include <cstdint>

#include "sched/session/ring/ring.hpp"
#include "train/coordinator/ring/ring_ids.hpp"
#include "train/coordinator/update_driver.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort {

/// What the parts of the coordinator's ring share.
struct RingContext {
    CommContext comm;
    const JobContext& parts;
    UpdateObserver& observer;
    Ring& ring;
    RingIds ids{};
    std::uint64_t epoch = 0;  ///< counts losses of members

    [[nodiscard]] TrainingSession& session() const { return observer.session(); }
    [[nodiscard]] UpdateEngine& engine() const { return session().engine(); }
    [[nodiscard]] LeaseDispatcher& leases() const { return session().leases(); }
    template <class Kind, class Body>
    void send(int worker, Kind kind, const Body& body) const {
        send_worker(comm, worker, kind, body);
    }
};

}  // namespace cohort
