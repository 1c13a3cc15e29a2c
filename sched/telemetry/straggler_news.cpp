#include "cohort/sched/straggler_news.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

void StragglerNews::close(Worker& one) {
    if (!one.open) {
        return;
    }
    const StragglerEpisode next = *std::exchange(one.open, std::nullopt);
    ++one.episodes;
    if (!one.closed) {
        one.closed = next;
        one.longest = next.iterations;
        return;
    }
    StragglerEpisode& all = *one.closed;
    all.iterations += next.iterations;
    const double weight =
        static_cast<double>(next.iterations) / static_cast<double>(all.iterations);
    all.slowdown += weight * (next.slowdown - all.slowdown);
    all.end_s = next.end_s;
    if (next.iterations > one.longest) {
        one.longest = next.iterations;
        all.cause = next.cause;
        all.by_lag = next.by_lag;
    }
}

void StragglerNews::over(Worker& one, Kind kind) {
    close(one);
    if (one.told) {
        news_.push_back({kind, *one.closed});
    } else if (one.closed) {
        brief_.episodes += one.episodes;
        brief_.iterations += one.records;
    }
    one = {};
}

void StragglerNews::add(int worker, const std::optional<StragglerEpisode>& open) {
    Worker& one = workers_.at(static_cast<std::size_t>(worker));
    const bool slow = open && (!one.open || open->by_lag != one.open->by_lag ||
                               open->iterations != one.open->iterations);
    if (!open || (one.open && open->begin_s > one.open->begin_s)) {
        close(one);  // the episode is over; another one may have begun with the same record
    }
    one.open = open;
    if (slow) {
        ++one.records;
        one.count = std::min(one.count + 1, kLasting);
    } else {
        one.count = std::max(one.count - 2, 0);
    }
    if (one.count == kLasting && !one.told) {
        Worker so_far = one;
        close(so_far);
        one.told = true;
        news_.push_back({Kind::kBegun, *so_far.closed});
    } else if (one.count == 0 && !open) {
        over(one, Kind::kEnded);
    }
}

void StragglerNews::left(int worker) {
    over(workers_.at(static_cast<std::size_t>(worker)), Kind::kLeft);
}

std::vector<StragglerNews::Item> StragglerNews::take() {
    return std::exchange(news_, {});
}

}  // namespace cohort
