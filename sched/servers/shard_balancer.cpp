#include "sched/servers/shard_balancer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/statistics.hpp"

namespace cohort {
namespace {

constexpr double kLeastBusyNoise = 0.02;  ///< of a busy time: of clocks
constexpr int kMostUndone = 8;            ///< that make the rest longer

/// A distance without what may be chance.
double sure_part(double distance, double error) {
    const double unsure = ShardBalancer::kSure * error;
    return std::abs(distance) <= unsure ? 0
                                        : distance * (1 - unsure * unsure / (distance * distance));
}

}  // namespace

ShardBalancer::ShardBalancer(std::vector<int> server_nodes, std::vector<int> worker_nodes,
                             std::vector<double> shares)
    : server_nodes_(std::move(server_nodes)),
      worker_nodes_(std::move(worker_nodes)),
      shares_(std::move(shares)) {
    check_invariant(server_nodes_.size() == shares_.size(), "a share for each server");
}

bool ShardBalancer::went(double now_s, double reference_batches, std::span<const double> busy_s) {
    const Window now{.seconds = now_s, .busy_s = {busy_s.begin(), busy_s.end()}};
    if (!since_) {
        since_ = now;
        batches_ = reference_batches;
        return false;
    }
    const double batches = reference_batches - batches_;
    if (batches < 1) {
        return false;
    }
    Window window{.seconds = (now_s - since_->seconds) / batches, .busy_s = now.busy_s};
    for (std::size_t i = 0; i < shares_.size(); ++i) {
        window.busy_s[i] = (window.busy_s[i] - since_->busy_s[i]) / batches;
    }
    windows_.push_back(std::move(window));
    if (windows_.size() > kMemory) {
        windows_.pop_front();
    }
    ++age_;
    past_.moves = age_ > static_cast<std::int64_t>(2 * kMemory) ? 0 : past_.moves;
    past_.rest = std::max<std::int64_t>(past_.rest - 1, 0);
    since_ = now;
    batches_ = reference_batches;
    if (trial_ && windows_.size() >= kMemory && !disappointed()) {
        trial_.reset();
        past_.undone = 0;
    }
    return true;
}

void ShardBalancer::restart() {
    windows_.clear();
    since_.reset();
    trial_.reset();
    age_ = 0;
}

template <class Get>
ShardBalancer::Mean ShardBalancer::mean_of(const Get& get) const {
    const auto count = static_cast<double>(windows_.size());
    Mean mean;
    for (const Window& window : windows_) {
        mean.value += get(window) / count;
    }
    double squares = 0;
    for (const Window& window : windows_) {
        squares += (get(window) - mean.value) * (get(window) - mean.value);
    }
    mean.error = std::sqrt(squares / std::max(count - 1, 1.0) / count);
    return mean;
}

ShardBalancer::Mean ShardBalancer::window_s() const {
    return mean_of([](const Window& window) { return window.seconds; });
}

ShardBalancer::Mean ShardBalancer::busy_s(std::size_t server) const {
    Mean mean = mean_of([server](const Window& window) { return window.busy_s[server]; });
    mean.error = std::max(
        mean.error, kLeastBusyNoise * mean.value / std::sqrt(static_cast<double>(windows_.size())));
    return mean;
}

std::vector<double> ShardBalancer::measured_whole_s() const {
    const double least = kLeastShare / 2 / static_cast<double>(shares_.size());
    std::vector<double> whole_s(shares_.size(), 0);
    for (std::size_t i = 0; i < shares_.size(); ++i) {
        if (!windows_.empty() && shares_[i] >= least) {
            whole_s[i] = busy_s(i).value / shares_[i];
        } else if (!before_.empty() && before_[i].share >= least) {
            whole_s[i] = before_[i].busy_s.value / before_[i].share;
        }
    }
    return whole_s;
}

/// Of equal servers, as far as what was measured may be chance; those that are not measured are as
/// fast as the others.
std::vector<ServerSpeed> ShardBalancer::speeds() const {
    const std::vector<double> whole_s = measured_whole_s();
    std::vector<double> logs;
    for (const double measured : whole_s) {
        if (measured > 0) {
            logs.push_back(std::log(measured));
        }
    }
    const double common = logs.empty() ? 0 : upper_median(logs);
    std::vector<ServerSpeed> speeds;
    for (std::size_t i = 0; i < whole_s.size(); ++i) {
        const Mean busy = windows_.empty() ? Mean() : busy_s(i);
        const double error = busy.value > 0 ? busy.error / busy.value : 0;
        const double distance = whole_s[i] > 0 ? std::log(whole_s[i]) - common : 0;
        speeds.push_back(
            {.node = server_nodes_[i], .whole_s = std::exp(common + sure_part(distance, error))});
    }
    return speeds;
}

/// Seconds of busy time per share, around the share in force.
double ShardBalancer::slope(std::size_t server, double whole_s) const {
    if (before_.empty() || windows_.empty()) {
        return whole_s;
    }
    const Mean now = busy_s(server);
    const Point& then = before_[server];
    const double risen = now.value - then.busy_s.value;
    const double slope = risen / (shares_[server] - then.share);
    const bool sure = std::abs(risen) > kConfidence * std::hypot(now.error, then.busy_s.error);
    return sure && slope >= kFlattest * whole_s && slope <= kSteepest * whole_s ? slope : whole_s;
}

/// Shares that are the best for servers which take as long as these shares would make them take.
ShardBalancer::Outlook ShardBalancer::best(const std::vector<ServerSpeed>& now) const {
    constexpr int kRounds = 12;  // each comes half as far as the one before
    Outlook outlook{.shares = capacity_shares(now, worker_nodes_), .slowest_s = 0};
    std::vector<double> slopes;
    for (std::size_t i = 0; i < now.size(); ++i) {
        slopes.push_back(slope(i, now[i].whole_s));
    }
    std::vector<ServerSpeed> then = now;
    const auto look = [&] {
        for (std::size_t i = 0; i < now.size(); ++i) {
            const double share = outlook.shares[i];
            const double took_s = now[i].whole_s * shares_[i] + slopes[i] * (share - shares_[i]);
            then[i].whole_s = std::max(took_s / share, kFlattest * now[i].whole_s);
        }
        outlook.slowest_s = slowest_server_s(then, worker_nodes_, outlook.shares);
    };
    look();
    for (int round = 0; round < kRounds && !before_.empty(); ++round) {
        const std::vector<double> shares = capacity_shares(then, worker_nodes_);
        for (std::size_t i = 0; i < shares.size(); ++i) {
            outlook.shares[i] = (outlook.shares[i] + shares[i]) / 2;
        }
        look();
    }
    return outlook;
}

std::size_t ShardBalancer::needed() const noexcept {
    return std::min(kMemory, kFew << static_cast<std::size_t>(past_.moves));
}

std::vector<double> ShardBalancer::suited() const {
    return best(speeds()).shares;
}

std::optional<ShardBalancer::Resize> ShardBalancer::decide() const {
    if (windows_.size() < needed() || shares_.size() < 2) {
        return std::nullopt;
    }
    if (trial_ && disappointed()) {
        return Resize{.shares = trial_->before, .why = "the last move did not help"};
    }
    return past_.rest > 0 ? std::nullopt : gainful();
}

/// Windows are longer than the last move promised, and that is not chance.
bool ShardBalancer::disappointed() const {
    const Mean now = window_s();
    const double least = trial_->window_s.value - kKept * trial_->promised_s;
    return now.value - least > kConfidence * std::hypot(now.error, trial_->window_s.error);
}

std::optional<ShardBalancer::Resize> ShardBalancer::gainful() const {
    const std::vector<ServerSpeed> now = speeds();
    const Outlook outlook = best(now);
    const double gain = slowest_server_s(now, worker_nodes_, shares_) - outlook.slowest_s;
    const auto slowest = static_cast<std::size_t>(
        std::ranges::max_element(now, {}, &ServerSpeed::whole_s) - now.begin());
    const double window = window_s().value;
    const double cost = past_.cost_s > 0 ? past_.cost_s : window;
    const double sure =
        gain - kConfidence * busy_s(slowest).error - cost / (kLasts * static_cast<double>(age_));
    if (sure <= kLeastGain * window) {
        return std::nullopt;
    }
    return Resize{.shares = outlook.shares, .why = why(now, slowest, outlook.shares)};
}

/// The slowest server relative to the middle one; where they are alike, the one whose share changes
/// most.
std::string ShardBalancer::why(const std::vector<ServerSpeed>& now, std::size_t slowest,
                               const std::vector<double>& then) const {
    constexpr double kSlower = 1.05;
    std::vector<double> times;
    std::size_t changed = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
        times.push_back(now[i].whole_s);
        const double most = std::abs(then[changed] - shares_[changed]);
        changed = std::abs(then[i] - shares_[i]) > most ? i : changed;
    }
    std::ranges::sort(times);
    const double slower = now[slowest].whole_s / times[(times.size() - 1) / 2];
    return slower >= kSlower
               ? fmt::format(
                     "server {} is {:.1f}x slower: {:.3f} -> {:.3f} of the parameters for it",
                     slowest, slower, shares_[slowest], then[slowest])
               : fmt::format(
                     "servers are equally fast: {:.3f} -> {:.3f} of the parameters for server {}",
                     shares_[changed], then[changed], changed);
}

void ShardBalancer::moved(const Resize& resize, double stood_s) {
    const bool undone = trial_ && resize.shares == trial_->before;
    std::optional<Trial> trial;
    if (undone) {
        past_.rest = kRest << std::min(past_.undone, kMostUndone);
        ++past_.undone;
    } else if (!windows_.empty()) {
        const std::vector<ServerSpeed> now = speeds();
        trial = Trial{
            .before = shares_,
            .window_s = window_s(),
            .promised_s = slowest_server_s(now, worker_nodes_, shares_) - best(now).slowest_s};
    }
    before_.clear();
    for (std::size_t i = 0; i < shares_.size() && !windows_.empty(); ++i) {
        before_.push_back({.share = shares_[i], .busy_s = busy_s(i)});
    }
    past_.moves = std::min(past_.moves + 1, 3);
    restart();
    trial_ = std::move(trial);
    shares_ = resize.shares;
    past_.cost_s = stood_s;
}

}  // namespace cohort
