#include "train/faults/injection.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse_fault(const std::string& what, const std::string& got) {
    fail<UsageError>(
        {.where = "--inject",
         .what = what,
         .expected = "entries rank=R and some of cpu=F (0 < F <= 1), bw=NkB/s|MB/s|GB/s, "
                     "delay=T[,p=P], sample=T, kill=T, freeze=T..T; [from=T][,to=T] for cpu, bw, "
                     "delay and sample; "
                     "T like 50ms or 12s; separated by ';'",
         .got = got,
         .hint = "--inject 'rank=3,cpu=0.3,from=10s,to=40s;rank=4,kill=12s'"});
}

template <class Number>
std::optional<Number> number(std::string_view text) {
    Number value{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

/// Largest amount in any unit; in seconds thirty years.
constexpr double kMostAmount = 1e9;
/// Smallest share: it stretches a few milliseconds to an hour.
constexpr double kLeastShare = 1e-6;

/// A number from 0 to kMostAmount, parsed from a text with this unit.
std::optional<double> amount(std::string_view text, std::string_view unit) {
    if (!text.ends_with(unit)) {
        return std::nullopt;
    }
    const auto value = number<double>(text.substr(0, text.size() - unit.size()));
    return value && *value >= 0 && *value <= kMostAmount ? value : std::nullopt;
}

double parse_time(std::string_view text, const std::string& entry) {
    const auto seconds = parse_duration(std::string(text));
    if (!seconds) {
        refuse_fault("'" + std::string(text) + "' is no time from 0 to 1e9 with its unit, s or ms",
                     entry);
    }
    return *seconds;
}

double parse_share(std::string_view text, const std::string& entry) {
    const auto share = number<double>(text);
    if (!share || !(*share >= kLeastShare && *share <= 1)) {
        refuse_fault("'" + std::string(text) + "' is no share from 1e-6 to 1", entry);
    }
    return *share;
}

double parse_bandwidth(std::string_view text, const std::string& entry) {
    if (const auto rate = parse_rate(text)) {
        return *rate;
    }
    refuse_fault("'" + std::string(text) + "' is no bandwidth above 0, at most 1e9, with its unit",
                 entry);
}

void parse_freeze(Injection& injection, std::string_view text, const std::string& entry) {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) {
        refuse_fault("freeze needs two times, T..T", entry);
    }
    injection.freeze_from_s = parse_time(text.substr(0, dots), entry);
    injection.freeze_to_s = parse_time(text.substr(dots + 2), entry);
    if (injection.freeze_to_s <= *injection.freeze_from_s) {
        refuse_fault("it thaws before it freezes", entry);
    }
}

void parse_rank(Injection& injection, std::string_view text, const std::string& entry) {
    const auto rank = number<int>(text);
    if (!rank || *rank < 0) {
        refuse_fault("'" + std::string(text) + "' is no rank", entry);
    }
    injection.rank = *rank;
}

/// Sets a field of an injection to what a text says by this rule.
template <auto kField, double (*kParse)(std::string_view, const std::string&)>
void set(Injection& injection, std::string_view text, const std::string& entry) {
    injection.*kField = kParse(text, entry);
}

struct Field {
    std::string_view name;
    void (*set)(Injection& injection, std::string_view text, const std::string& entry);
};
constexpr std::array<Field, 10> kFields{{{"rank", parse_rank},
                                         {"cpu", set<&Injection::cpu, parse_share>},
                                         {"bw", set<&Injection::bytes_per_second, parse_bandwidth>},
                                         {"delay", set<&Injection::delay_s, parse_time>},
                                         {"sample", set<&Injection::sample_s, parse_time>},
                                         {"p", set<&Injection::probability, parse_share>},
                                         {"kill", set<&Injection::kill_s, parse_time>},
                                         {"freeze", parse_freeze},
                                         {"from", set<&Injection::from_s, parse_time>},
                                         {"to", set<&Injection::to_s, parse_time>}}};

/// Checks for names that must not stand alone.
void check_entry(const Injection& injection, const std::set<std::string>& names,
                 const std::string& entry) {
    const auto has = [&names](const char* name) { return names.contains(name); };
    const bool lasting = has("cpu") || has("bw") || has("delay") || has("sample");
    if (!has("rank") || !(lasting || has("kill") || has("freeze"))) {
        refuse_fault("an entry needs rank and a fault", entry);
    }
    if (has("p") && !has("delay")) {
        refuse_fault("p belongs to delay", entry);
    }
    if ((has("from") || has("to")) && !lasting) {
        refuse_fault("from and to belong to cpu, bw, delay and sample", entry);
    }
    if (injection.to_s && *injection.to_s <= injection.from_s) {
        refuse_fault("it ends before it begins", entry);
    }
}

Injection parse_entry(const std::string& entry) {
    Injection injection;
    std::set<std::string> seen;
    std::istringstream fields(entry);
    for (std::string field; std::getline(fields, field, ',');) {
        const std::size_t equals = field.find('=');
        if (equals == std::string::npos) {
            refuse_fault("'" + field + "' is not NAME=VALUE", entry);
        }
        const std::string name = field.substr(0, equals);
        const auto* const known = std::ranges::find(kFields, name, &Field::name);
        if (known == kFields.end()) {
            refuse_fault("'" + name + "' is unknown", entry);
        }
        known->set(injection, std::string_view(field).substr(equals + 1), entry);
        if (!seen.insert(name).second) {
            refuse_fault("names " + name + " twice", entry);
        }
    }
    check_entry(injection, seen, entry);
    return injection;
}

/// Waking up from a shorter sleep takes longer than the sleep.
constexpr Clock::Seconds kShortestDelay{1e-3};
/// Longest sleep between two checks whether the mini-batch should be given up.
constexpr Clock::Seconds kLongestSleep{5e-3};
/// And whether the run stops.
constexpr Clock::Seconds kStopLook{50e-3};

}  // namespace

std::optional<double> parse_rate(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, double>, 3> kUnits{
        {{"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}}};
    for (const auto& [unit, bytes] : kUnits) {
        if (const auto value = amount(text, unit); value && *value > 0) {
            return *value * bytes;
        }
    }
    return std::nullopt;
}

std::optional<double> parse_duration(const std::string& text) {
    constexpr double kMilliseconds = 1e-3;
    if (const auto milliseconds = amount(text, "ms")) {
        return *milliseconds * kMilliseconds;
    }
    return amount(text, "s");
}

std::vector<Injection> parse_injections(const std::string& text) {
    std::vector<Injection> injections;
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ';');) {
        injections.push_back(parse_entry(entry));
    }
    return injections;
}

Injector::Injector(const std::vector<Injection>& all, int rank, std::uint64_t seed,
                   std::shared_ptr<const Clock> wall, std::shared_ptr<const Clock> busy,
                   Sleep sleep)
    : seed_(seed), wall_(std::move(wall)), busy_(std::move(busy)), sleep_(std::move(sleep)) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(mine_),
                 [rank](const Injection& one) { return one.rank == rank; });
    if (!busy_) {
        busy_ = std::make_shared<ThreadCpuClock>();
    }
    if (!sleep_) {
        sleep_ = [](Clock::Seconds time) { std::this_thread::sleep_for(time); };
    }
}

void Injector::start() {
    started_ = wall_->now();
}

void Injector::replay(Replay recording, int worker) {
    replayed_.emplace(Replayed{.recording = std::move(recording), .worker = worker});
}

void Injector::begin_step() {
    if (!idle()) {
        mark_ = busy_->now();
        delay_ = Clock::Seconds(draw_delay((wall_->now() - started_).count()));
        if (replayed_) {
            delay_ += Clock::Seconds(
                replayed_->recording.delay_s(replayed_->worker, replayed_->moment++));
        }
    }
}

void Injector::begin_samples(std::int64_t count) {
    const double seconds = (wall_->now() - started_).count();
    for (const Injection& one : mine_) {
        const double each_s = one.holds(seconds) ? one.sample_s : 0;
        delay_ += Clock::Seconds(each_s * static_cast<double>(count));
    }
}

/// A number for each entry and mini-batch, whether it is needed or not.
double Injector::draw_delay(double seconds) {
    double sum = 0;
    const std::uint32_t step = steps_++;
    for (std::size_t i = 0; i < mine_.size(); ++i) {
        const Injection& one = mine_[i];
        Rng random(seed_, RngPurpose::kInjection,
                   (static_cast<std::uint64_t>(one.rank) << 32U) | step,
                   static_cast<std::uint32_t>(i));
        if (random.next_uniform() < one.probability && one.holds(seconds)) {
            sum += one.delay_s;
        }
    }
    return sum;
}

/// In pieces, when something may end it.
void Injector::sleep_until(Clock::Seconds end, const std::function<bool()>& give_up) const {
    for (auto left = end - wall_->now(); left > Clock::Seconds(0); left = end - wall_->now()) {
        if ((give_up && give_up()) || (stop_ && stop_())) {
            return;
        }
        sleep_(give_up ? std::min(left, kLongestSleep) : stop_ ? std::min(left, kStopLook) : left);
    }
}

void Injector::wait_out_delay(const std::function<bool()>& give_up) {
    const Clock::Seconds before = busy_->now();
    const Clock::Seconds end = wall_->now() + std::exchange(delay_, Clock::Seconds(0));
    sleep_until(end, give_up);
    mark_ += busy_->now() - before;  // this time is not stretched
}

void Injector::pause(const std::function<bool()>& give_up) {
    if (idle()) {
        return;
    }
    if (delay_ > Clock::Seconds(0)) {
        wait_out_delay(give_up);
    }
    const Clock::Seconds now = wall_->now();
    const double speed = share(now - started_);
    if (speed < 1) {
        debt_ += (busy_->now() - mark_) * (1 / speed - 1);
        if (debt_ >= kShortestDelay) {
            sleep_until(now + debt_, give_up);
            debt_ = give_up && give_up() ? Clock::Seconds(0) : debt_ - (wall_->now() - now);
        }
    } else {
        debt_ = Clock::Seconds(0);
    }
    mark_ = busy_->now();
}

double Injector::share(Clock::Seconds now) const noexcept {
    double least = 1;
    for (const Injection& one : mine_) {
        least = one.holds(now.count()) ? std::min(least, one.cpu) : least;
    }
    return least;
}

}  // namespace cohort
