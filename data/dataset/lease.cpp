#include "cohort/data/lease.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

void check_state(const SampleSetInfo& info, const LeaseState& state) {
    const auto bad = [&](const LeaseSlice& slice) {
        const bool inside =
            slice.position >= 0 && slice.count >= 1 && slice.position <= info.samples - slice.count;
        const bool behind =
            slice.epoch < state.epoch ||
            (slice.epoch == state.epoch && slice.position + slice.count <= state.position);
        return !inside || !behind;
    };
    if (state.position < 0 || state.position > info.samples || state.applied < 0 ||
        std::ranges::any_of(state.pending, bad)) {
        fail<UsageError>({.where = "data position",
                          .what = "the saved position does not fit this data set",
                          .expected = fmt::format("positions within {} samples", info.samples),
                          .got = fmt::format("epoch {}, position {}, {} pending leases",
                                             state.epoch, state.position, state.pending.size()),
                          .hint = "the data set that the run was started with"});
    }
}

}  // namespace

LeaseLedger::LeaseLedger(const SampleSetInfo& info, const OrderOptions& order, std::int64_t limit,
                         const LeaseState& from)
    : epoch_samples_(info.samples),
      reader_(info, order),
      limit_(limit),
      epoch_(from.epoch),
      position_(from.position),
      fresh_(from.applied),
      next_id_(from.next_id) {
    check_state(info, from);
    account_.leased = account_.applied = from.applied;
    for (const LeaseSlice& slice : from.pending) {
        put_in_line(slice, next_turn_++);
        fresh_ += slice.count;
    }
}

std::optional<Lease> LeaseLedger::take(std::int64_t n) {
    const std::optional<LeasedSlice> taken = take_slice(n);
    if (!taken) {
        return std::nullopt;
    }
    return Lease{.id = taken->id,
                 .epoch = taken->slice.epoch,
                 .position = taken->slice.position,
                 .samples = reader_.samples(taken->slice)};
}

std::optional<LeasedSlice> LeaseLedger::take_slice(std::int64_t n) {
    if (n < 1) {
        fail<UsageError>({.where = "lease",
                          .what = "no samples asked for",
                          .expected = "at least 1",
                          .got = fmt::format("{}", n)});
    }
    // A resumed book with a lower limit may have more samples waiting than may still be applied.
    const std::int64_t room = limit_ - account_.applied - account_.outstanding;
    if (room <= 0) {
        return std::nullopt;
    }
    if (!waiting_.empty()) {
        std::uint64_t turn = 0;
        const LeaseSlice slice = take_waiting(std::min(n, room), turn);
        return issue(slice, turn);
    }
    const std::optional<LeaseSlice> fresh = take_fresh(n);
    return fresh ? std::optional(issue(*fresh, next_turn_++)) : std::nullopt;
}

/// Takes the first waiting slice, or its beginning; the rest keeps its place.
LeaseSlice LeaseLedger::take_waiting(std::int64_t n, std::uint64_t& turn) {
    LeaseSlice slice = waiting_.begin()->second;
    turn = waiting_.begin()->first.first;
    waiting_.erase(waiting_.begin());
    if (n < slice.count) {
        put_in_line({slice.epoch, slice.position + n, slice.count - n}, turn);
        slice.count = n;
    }
    return slice;
}

void LeaseLedger::put_in_line(const LeaseSlice& slice, std::uint64_t turn) {
    waiting_[{turn, slice.position}] = slice;
}

std::optional<LeaseSlice> LeaseLedger::take_fresh(std::int64_t n) {
    if (fresh_ >= limit_) {
        return std::nullopt;
    }
    if (position_ == epoch_samples_) {
        ++epoch_;
        position_ = 0;
    }
    const LeaseSlice slice{epoch_, position_,
                           std::min({n, epoch_samples_ - position_, limit_ - fresh_})};
    position_ += slice.count;
    fresh_ += slice.count;
    return slice;
}

LeasedSlice LeaseLedger::issue(const LeaseSlice& slice, std::uint64_t turn) {
    const std::uint64_t id = next_id_++;
    outstanding_[id] = {slice, turn};
    account_.leased += slice.count;
    account_.outstanding += slice.count;
    return {id, slice};
}

std::optional<LeaseLedger::Out> LeaseLedger::end(std::uint64_t id) {
    const auto found = outstanding_.find(id);
    if (found == outstanding_.end()) {
        return std::nullopt;
    }
    const Out out = found->second;
    outstanding_.erase(found);
    account_.outstanding -= out.slice.count;
    return out;
}

bool LeaseLedger::mark_applied(std::uint64_t id) {
    const std::optional<Out> out = end(id);
    if (out) {
        account_.applied += out->slice.count;
    }
    return out.has_value();
}

bool LeaseLedger::mark_returned(std::uint64_t id) {
    const std::optional<Out> out = end(id);
    if (out) {
        account_.returned += out->slice.count;
        put_in_line(out->slice, next_turn_++);
    }
    return out.has_value();
}

void LeaseLedger::mark_undone(const LeaseSlice& slice) {
    account_.applied -= slice.count;
    account_.returned += slice.count;
    put_in_line(slice, next_turn_++);
}

bool LeaseLedger::mark_unused(std::uint64_t id) {
    const std::optional<Out> out = end(id);
    if (out) {
        account_.returned += out->slice.count;
        put_in_line(out->slice, out->turn);
    }
    return out.has_value();
}

LeaseState LeaseLedger::state() const {
    LeaseState state{.epoch = epoch_,
                     .position = position_,
                     .applied = account_.applied,
                     .next_id = next_id_,
                     .pending = {}};
    for (const auto& [id, out] : outstanding_) {
        state.pending.push_back(out.slice);
    }
    for (const auto& [turn, slice] : waiting_) {
        state.pending.push_back(slice);
    }
    return state;
}

}  // namespace cohort
