#include "comm/world/cut_off.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/log.hpp"

namespace cohort {

using namespace std::chrono_literals;

void CutOff::begin(Instant now, const std::string& reason) {
    if (!since_) {
        since_ = now;
        log_warn("rank {}: {}; this rank is cut off or rank 0 has died: it waits for {:.0f} s more",
                 network_.rank(), reason, limit_s_);
    }
}

void CutOff::forgive(Instant::duration pause) noexcept {
    if (since_) {
        *since_ += pause;
    }
}

std::optional<Failure> CutOff::look(Instant now) {
    if (!since_) {
        return std::nullopt;
    }
    const std::chrono::duration<double> doubted = now - *since_;
    const Instant heard = network_.control->last_heard(0);
    if (heard > *since_) {
        since_.reset();
        board_.restart();
        log_warn("rank {}: rank 0 is heard again, {:.1f} s after it was missed", network_.rank(),
                 doubted.count());
    } else if (doubted.count() > limit_s_) {
        return Failure{
            ExitCode::kPeer,
            fmt::format("cut off: rank 0 was not heard of for {:.0f} s", (now - heard) / 1.0s),
            network_.rank()};
    }
    return std::nullopt;
}

}  // namespace cohort
