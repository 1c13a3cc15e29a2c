#include "train/worker/ring/ring_rider.hpp"

namespace cohort {

void RingRider::follow(const RoleOrder& order, bool was_member) {
    if (was_member && order.role != RingRole::kMember) {
        start_permit_ = true;
        held_epoch_ = order.epoch;
    }
    parent_ = order.parent;
    if (order.afresh) {
        start_permit_ = start_permit_ && held_epoch_ >= order.epoch;  // else new ones are in flight
        parameters_epoch_ = order.epoch;
    }
}

void RingRider::restart() {
    rides_.restart();
    start_permit_ = false;
}

int RingRider::parent() const {
    return context_.links().map.rank_of_worker(parent_);
}

bool RingRider::ready() const {
    return start_permit_ ? context_.batches().waiting() > 0 : inbox_.has(permits_start());
}

void RingRider::step() {
    if (!start_permit_) {
        take_parameters();
    } else if (rides_.run(parent(), model_.version())) {
        start_permit_ = false;
    }
}

/// The answer to the last push, or what a new parent sends in its place.
std::function<bool(const StateHeader&)> RingRider::permits_start() const {
    return [this](const StateHeader& header) {
        return !header.full && header.epoch >= parameters_epoch_ &&
               header.incarnation == context_.incarnation() && header.after == begun();
    };
}

void RingRider::take_parameters() {
    inbox_.drop([this](const StateHeader& header) {
        return !header.full &&
               (header.incarnation != context_.incarnation() || header.after < begun());
    });
    if (const auto state = inbox_.take(permits_start())) {
        model_.take(*state);
        held_epoch_ = state->header.epoch;
        start_permit_ = true;
        rides_.pulled((SteadyClock().now() - state->announced).count());
    }
}

}  // namespace cohort
