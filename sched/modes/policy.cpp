#include "cohort/sched/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/modes/mode_table.hpp"
#include "sched/modes/policies.hpp"
#include "sched/modes/policy_base.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_schedule(std::string_view what, std::string_view text) {
    fail<UsageError>({.where = "--mode-schedule",
                      .what = what,
                      .expected = "SAMPLES:MODE,SAMPLES:MODE,... with ascending samples from 0",
                      .got = fmt::format("'{}'", text)});
}

/// "20000:static:6": the samples and where the mode begins; nothing for "0", the C of an
/// "adadelay:1,0".
std::optional<ScheduledMode> parse_entry(std::string_view piece) {
    const std::size_t colon = piece.find(':');
    if (colon == std::string_view::npos) {
        return {};
    }
    std::int64_t samples = 0;
    const char* const end = piece.data() + colon;
    const auto [stop, error] = std::from_chars(piece.data(), end, samples);
    if (error != std::errc{} || stop != end) {
        return {};
    }
    return ScheduledMode{.samples = samples, .mode = std::string(piece.substr(colon + 1))};
}

}  // namespace

std::unique_ptr<ModePolicy> make_policy(std::string_view mode, const ModeSetting& setting) {
    const ParsedMode parsed = parse_mode(mode, setting);
    if (parsed.lr_scale) {
        return make_policy(parsed.unscaled, scaled(setting, *parsed.lr_scale));
    }
    (void)make_plan(mode, setting);  // reports errors now
    if (setting.chooser.record_rates) {
        return make_recording_policy(std::string(mode), setting);
    }
    if (parsed.entry->policy == nullptr) {
        return std::make_unique<PolicyBase>(std::string(mode), setting);
    }
    return parsed.entry->policy(std::string(mode), setting, parsed.values);
}

std::vector<SyncPlan> plans_of_mode(std::string_view mode, const ModeSetting& setting) {
    const std::unique_ptr<ModePolicy> policy = make_policy(mode, setting);
    std::vector<SyncPlan> plans{policy->start().plan.value()};
    Telemetry end{.samples_applied = 1, .budget_samples = 1, .updates = 1, .workers = {}};
    end.workers.resize(setting.live.size());
    if (auto plan = policy->decide(end).plan) {
        plans.push_back(std::move(*plan));
    }
    return plans;
}

std::vector<ScheduledMode> parse_mode_schedule(std::string_view text) {
    std::vector<ScheduledMode> entries;
    std::string_view rest = text;
    while (true) {
        const std::size_t comma = rest.find(',');
        const std::string_view piece = rest.substr(0, comma);
        if (std::optional<ScheduledMode> entry = parse_entry(piece)) {
            entries.push_back(*std::move(entry));
        } else if (!entries.empty() && !piece.empty() &&
                   piece.find(':') == std::string_view::npos) {
            entries.back().mode += fmt::format(",{}", piece);
        } else {
            fail_schedule("no number of samples before a mode", text);
        }
        if (comma == std::string_view::npos) {
            break;
        }
        rest.remove_prefix(comma + 1);
    }
    const bool ascending = std::is_sorted(
        entries.begin(), entries.end(),
        [](const ScheduledMode& a, const ScheduledMode& b) { return a.samples <= b.samples; });
    const bool named =
        std::none_of(entries.begin(), entries.end(), [](const auto& e) { return e.mode.empty(); });
    if (!ascending || !named || entries.front().samples != 0) {
        fail_schedule("not a sequence of modes", text);
    }
    return entries;
}

void OwnTime::add(double seconds) {
    constexpr double kShare = 0.2;
    constexpr double kJump = 0.5;
    constexpr int kInARow = 3;
    last_ = seconds;
    if (mean_ == 0) {
        mean_ = seconds;
        return;
    }
    const int jump = seconds > (1 + kJump) * mean_ ? 1 : seconds < (1 - kJump) * mean_ ? -1 : 0;
    jumps_ = jump == 0 ? 0 : jump * jumps_ > 0 ? jumps_ + jump : jump;
    if (jumps_ == kInARow || jumps_ == -kInARow) {
        mean_ = seconds;
        jumps_ = 0;
        return;
    }
    mean_ += kShare * (seconds - mean_);
}

}  // namespace cohort
