#include "train/coordinator/checkpoint/mirror_coordinator.hpp"

#include <algorithm>
#include <utility>

#include "core/log.hpp"
#include "train/mirror/mirror_keeper.hpp"

namespace cohort {
namespace {

/// Of the time, when no interval is given. Sending counts as if training stood still meanwhile.
constexpr double kShare = 0.01;
/// A copy that took long because its holder stood still is no measure of the next one.
constexpr double kLongestS = 60;

}  // namespace

bool MirrorCoordinator::due(Clock::Seconds now) const {
    if (every_s_ == 0 || attempt_) {
        return false;
    }
    const double period_s = every_s_ > 0 ? every_s_ : std::min(cost_s_ / kShare, kLongestS);
    return !last_at_ || (now - *last_at_).count() >= period_s;
}

std::string MirrorCoordinator::start(Clock::Seconds now) {
    attempt_.emplace(mirror_name(comm_.mirrors->world(), ++number_), parts_);
    last_at_ = now;
    return attempt_->path;
}

void MirrorCoordinator::captured(RunSnapshot snapshot) {
    attempt_->snapshot = std::move(snapshot);
    complete();
}

void MirrorCoordinator::saved(const SavedPart& part) {
    if (attempt_) {
        attempt_->saved(part);
        complete();
    }
}

void MirrorCoordinator::give_up() {
    if (attempt_ && !attempt_->snapshot) {
        attempt_.reset();
    }
}

void MirrorCoordinator::complete() {
    if (!attempt_ || !attempt_->snapshot || !attempt_->missing().empty()) {
        return;
    }
    const CheckpointAttempt done = *std::exchange(attempt_, std::nullopt);
    cost_s_ = 0;
    for (const auto& part : done.parts) {
        cost_s_ = std::max(cost_s_, part->pause_s + part->write_s);
        if (!part->error.empty()) {
            return;  // its writer is lost
        }
    }
    const MirrorBooks books{.mirror = done.path,
                            .parts = static_cast<std::int32_t>(parts_),
                            .snapshot = *done.snapshot};
    for (int rank = 0; rank < comm_.map.size(); ++rank) {
        comm_.send({rank, Port::kMirror}, Port::kCoordinator, MirrorMessage::kBooks, books);
    }
}

}  // namespace cohort
