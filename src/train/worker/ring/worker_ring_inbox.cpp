#include "train/worker/ring/worker_ring_inbox.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "train/protocol/complete_transfers.hpp"

namespace cohort {

RingInbox::~RingInbox() {
    for (Coming& one : coming_) {
        keep_for_good(std::shared_ptr<float[]>(std::move(one.state.values)));
    }
}

std::span<std::byte> RingInbox::accept(const Message& announcement, std::uint64_t bytes) {
    if (announcement.kind == static_cast<std::uint16_t>(MessageKind::kPush)) {
        return staging_.accept(announcement, bytes);
    }
    if (announcement.kind != static_cast<std::uint16_t>(RingMessageKind::kState)) {
        return {};  // the computing thread complains
    }
    ReceivedState state{.header = decode<StateHeader>(announcement.body),
                        .values = nullptr,
                        .floats = static_cast<std::size_t>(bytes / sizeof(float)),
                        .announced = SteadyClock().now()};
    if (rounded(state.header) && bytes == pulled_.of(floats_)) {
        state.floats = static_cast<std::size_t>(floats_);
    } else if (bytes % sizeof(float) != 0) {
        return {};
    }
    state.values = std::make_unique_for_overwrite<float[]>(state.floats);
    const std::span<float> memory(state.values.get(), state.floats);
    const std::lock_guard lock(mutex_);
    coming_.push_back({announcement, std::move(state)});
    return std::as_writable_bytes(memory).last(static_cast<std::size_t>(bytes));
}

std::shared_ptr<const float> RingInbox::push_arrived(PushId push) {
    return staging_.arrived(push) ? staging_.take(push) : nullptr;
}

/// Takes the state off the list of those that are coming.
std::optional<ReceivedState> RingInbox::strike(const Message& message) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(coming_.begin(), coming_.end(), [&](const Coming& coming) {
        return coming.announcement.from == message.from && coming.announcement.body == message.body;
    });
    if (found == coming_.end()) {
        return std::nullopt;
    }
    ReceivedState state = std::move(found->state);
    coming_.erase(found);
    return state;
}

void RingInbox::state_arrived(const Message& message) {
    std::optional<ReceivedState> state = strike(message);
    check_invariant(state.has_value(), "a state arrives after its announcement");
    if (rounded(state->header) && state->floats == static_cast<std::size_t>(floats_)) {
        widen_bf16_in_place({state->values.get(), static_cast<std::size_t>(pulled_.parameters)});
    }
    here_.push_back(std::move(*state));
}

std::optional<ReceivedState> RingInbox::take(const std::function<bool(const StateHeader&)>& fits) {
    const auto found = std::find_if(here_.begin(), here_.end(),
                                    [&](const ReceivedState& state) { return fits(state.header); });
    if (found == here_.end()) {
        return std::nullopt;
    }
    ReceivedState state = std::move(*found);
    here_.erase(found);
    return state;
}

void RingInbox::drop(const std::function<bool(const StateHeader&)>& stale) {
    std::erase_if(here_, [&](const ReceivedState& state) { return stale(state.header); });
}

bool RingInbox::has(const std::function<bool(const StateHeader&)>& fits) const {
    return std::any_of(here_.begin(), here_.end(),
                       [&](const ReceivedState& state) { return fits(state.header); });
}

void RingInbox::forget(const Message& message) {
    if (message.kind == static_cast<std::uint16_t>(MessageKind::kPush)) {
        staging_.forget(decode<PushHeader>(message.body).push);
    } else if (message.kind == static_cast<std::uint16_t>(RingMessageKind::kState)) {
        (void)strike(message);
    }
}

std::vector<int> RingInbox::coming() const {
    std::vector<int> ranks = staging_.coming();
    const std::lock_guard lock(mutex_);
    for (const Coming& one : coming_) {
        ranks.push_back(one.announcement.from.rank);
    }
    return ranks;
}

}  // namespace cohort
