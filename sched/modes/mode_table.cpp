#include "sched/modes/mode_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/suggestion.hpp"

// The table of modes, how the command line names them, and their plans.
namespace cohort {
namespace {

bool runs_on(const ModeEntry& entry, Architecture architecture) {
    return architecture == Architecture::kRing ? entry.rings : entry.servers;
}

/// "static:X", "saps[:D:ACTION]": optional parameters in brackets.
std::string spelling(const ModeEntry& entry) {
    std::string text(entry.name);
    char before = ':';
    bool optional = false;
    for (const ModeParameter& parameter : entry.parameters) {
        if (parameter.fallback && !optional) {
            text += '[';
            optional = true;
        }
        text += fmt::format("{}{}", before, parameter.name);
        before = entry.separator;
    }
    return optional ? text + ']' : text;
}

std::string range(const ModeParameter& parameter, std::size_t workers) {
    if (!parameter.words.empty()) {
        return fmt::format("{} one of {}", parameter.name, fmt::join(parameter.words, ", "));
    }
    switch (parameter.most) {
        case ModeParameter::Most::kOne:
            return fmt::format("{} from {} to 1", parameter.name, parameter.least);
        case ModeParameter::Most::kWorkers:
            return fmt::format("{} from {} to the {} workers", parameter.name, parameter.least,
                               workers);
        case ModeParameter::Most::kBelowWorkers:
            return fmt::format("{} from {} to {}, one less than the workers", parameter.name,
                               parameter.least, workers - 1);
        default:
            return fmt::format("{}{} {} to {}{}", parameter.name,
                               parameter.whole ? " whole," : " from", parameter.least,
                               ModeParameter::kMost, parameter.automatic ? " or auto" : "");
    }
}

[[noreturn]] void fail_parameters(std::string_view mode, const ModeEntry& entry,
                                  std::size_t workers) {
    std::vector<std::string> ranges;
    for (const ModeParameter& parameter : entry.parameters) {
        ranges.push_back(range(parameter, workers));
    }
    const std::string with = ranges.empty() ? "" : fmt::format(" with {}", fmt::join(ranges, ", "));
    fail<UsageError>({.where = "--mode",
                      .what = "parameters that this mode cannot have",
                      .expected = spelling(entry) + with,
                      .got = fmt::format("'{}'", mode)});
}

/// The whole text as a number.
template <class Number>
std::optional<double> number_in(std::string_view text) {
    const char* const end = text.data() + text.size();
    Number value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const auto number = static_cast<double>(value);
    const bool all = error == std::errc{} && stop == end && std::isfinite(number);
    return all ? std::optional<double>(number) : std::nullopt;
}

std::optional<double> parse_value(const ModeParameter& parameter, std::string_view text,
                                  const ModeSetting& setting) {
    if (!parameter.words.empty()) {
        const auto found = std::ranges::find(parameter.words, text);
        if (found == parameter.words.end()) {
            return {};
        }
        return static_cast<double>(found - parameter.words.begin());
    }
    if (parameter.automatic && text == "auto") {
        return kAutomatic;
    }
    const std::optional<double> value =
        parameter.whole ? number_in<std::int32_t>(text) : number_in<double>(text);
    const auto count = static_cast<double>(setting.live.size());
    const bool bounded = !setting.continued;
    const bool fits =
        value && *value >= parameter.least && *value <= ModeParameter::kMost &&
        (parameter.most != ModeParameter::Most::kOne || *value <= 1) &&
        (parameter.most != ModeParameter::Most::kWorkers || !bounded || *value <= count) &&
        (parameter.most != ModeParameter::Most::kBelowWorkers || !bounded || *value < count);
    return fits ? value : std::nullopt;
}

/// Splits "a:b:c"; a text without any parameter has no pieces.
std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
    std::vector<std::string_view> pieces;
    while (true) {
        const std::size_t end = text.find(separator);
        pieces.push_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return pieces;
        }
        text.remove_prefix(end + 1);
    }
}

std::vector<double> parse_values(std::string_view mode, const ModeEntry& entry,
                                 const ModeSetting& setting) {
    const std::size_t workers = setting.live.size();
    std::vector<std::string_view> pieces;
    if (mode.size() > entry.name.size()) {
        pieces = pieces_of(mode.substr(entry.name.size() + 1), entry.separator);
    }
    if (pieces.size() > entry.parameters.size()) {
        fail_parameters(mode, entry, workers);
    }
    std::vector<double> values;
    for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
        const ModeParameter& parameter = entry.parameters[i];
        const std::optional<double> value =
            i < pieces.size() ? parse_value(parameter, pieces[i], setting) : parameter.fallback;
        if (!value) {
            fail_parameters(mode, entry, workers);
        }
        values.push_back(*value);
    }
    return values;
}

/// The number after '@'. Choosers take none: their candidates have scales of their own.
std::optional<double> parse_scale(std::string_view mode, const ModeEntry& entry) {
    const std::size_t at = mode.find('@');
    if (at == std::string_view::npos) {
        return {};
    }
    const std::optional<double> scale = number_in<double>(mode.substr(at + 1));
    if (entry.chooses || !scale || !kLrScaleLimits.contain(*scale)) {
        fail<UsageError>(
            {.where = "--mode",
             .what = "a scale of the learning rate that this mode cannot have",
             .expected =
                 entry.chooses
                     ? fmt::format("{}, which chooses plans with their rates", entry.name)
                     : fmt::format("{}@SCALE, SCALE {}", spelling(entry), kLrScaleLimits.text()),
             .got = fmt::format("'{}'", mode)});
    }
    return scale;
}

/// Whether pushes are applied although other pushes were applied since their version.
bool pushes_may_lag(const SyncPlan& plan) {
    const bool only_fresh = plan.late == SyncPlan::Late::kDrop &&
                            std::ranges::all_of(plan.cohorts, [](const CohortSpec& cohort) {
                                return cohort.fresh_only && cohort.riders.empty();
                            });
    const bool one = plan.cohorts.size() == 1;
    return !is_synchronous(plan) && !(one && only_fresh);
}

/// Sets the fields that the setting determines for every plan.
void complete(SyncPlan& plan, const ModeSetting& setting) {
    plan.lr_unit = setting.lr_rule;
    plan.published_unit =
        plan.published_unit == 0 ? reference_batch_of(setting) : plan.published_unit;
    plan.look_ahead = setting.stale_momentum == StaleMomentum::kLookAhead && pushes_may_lag(plan);
    if (plan.lr_scale != setting.lr_scale) {  // else the scale is part of the mode's own name
        plan.lr_scale = setting.lr_scale;
        plan.name += fmt::format("@{}", plan.lr_scale);
    }
}

}  // namespace

std::vector<int> live_workers(const ModeSetting& setting) {
    std::vector<int> live;
    for (std::size_t worker = 0; worker < setting.live.size(); ++worker) {
        if (setting.live[worker]) {
            live.push_back(static_cast<int>(worker));
        }
    }
    return live;
}

int ModeRequest::of_workers(std::size_t i) const {
    return std::min(whole(i), workers());
}

SyncPlan one_cohort(const ModeRequest& request, int quorum) {
    SyncPlan plan;
    plan.cohorts.push_back({.members = request.live, .riders = {}, .quorum = quorum});
    return plan;
}

SyncPlan cohorts_of_one(const ModeRequest& request) {
    SyncPlan plan;
    for (const int worker : request.live) {
        plan.cohorts.push_back({.members = {worker}, .riders = {}});
    }
    return plan;
}

const std::vector<ModeEntry>& mode_table() {
    static const std::vector<ModeEntry> table = [] {
        std::vector<ModeEntry> all;
        for (std::vector<ModeEntry> part : {waiting_modes(), free_modes(), grouped_modes(),
                                            balancing_modes(), adaptive_modes()}) {
            std::move(part.begin(), part.end(), std::back_inserter(all));
        }
        return all;
    }();
    return table;
}

std::vector<std::string> mode_names(Architecture architecture) {
    std::vector<std::string> names;
    for (const ModeEntry& entry : mode_table()) {
        if (runs_on(entry, architecture)) {
            const bool first = entry.name == default_mode(architecture);
            names.insert(first ? names.begin() : names.end(), spelling(entry));
        }
    }
    return names;
}

ModeSetting scaled(ModeSetting setting, double lr_scale) {
    setting.lr_scale = lr_scale;
    return setting;
}

namespace {

/// Names of the modes that run there, without their parameters.
std::vector<std::string> bare_names(Architecture architecture) {
    std::vector<std::string> names;
    for (const ModeEntry& entry : mode_table()) {
        if (runs_on(entry, architecture)) {
            names.emplace_back(entry.name);
        }
    }
    return names;
}

}  // namespace

Mode parse_mode(std::string_view mode, const ModeSetting& setting) {
    const std::string_view unscaled = mode.substr(0, mode.find('@'));
    const std::string_view name = unscaled.substr(0, unscaled.find(':'));
    const auto& table = mode_table();
    const bool ring = setting.architecture == Architecture::kRing;
    const auto found = std::ranges::find(table, name, &ModeEntry::name);
    if (found == table.end() || !runs_on(*found, setting.architecture)) {
        const std::string guess =
            found == table.end() ? closest_word(name, bare_names(setting.architecture)) : "";
        fail<UsageError>(
            {.where = "--mode",
             .what = fmt::format(
                 "{} {}",
                 found == table.end() ? "unknown mode with" : "a mode that does not run on",
                 ring ? "rings" : "servers"),
             .expected = fmt::format("{}", fmt::join(mode_names(setting.architecture), ", ")),
             .got = guess.empty() ? fmt::format("'{}'", mode)
                                  : fmt::format("'{}' (did you mean '{}'?)", mode, guess),
             .hint = found == table.end() ? ""
                     : ring               ? "--arch servers"
                                          : "--arch ring"});
    }
    return {.text = std::string(mode),
            .entry = &*found,
            .values = parse_values(unscaled, *found, setting),
            .lr_scale = parse_scale(mode, *found)};
}

SyncPlan make_plan(const Mode& mode, const ModeSetting& setting) {
    if (mode.lr_scale) {
        Mode unscaled = mode;
        unscaled.lr_scale.reset();
        return make_plan(unscaled, scaled(setting, *mode.lr_scale));
    }
    const ModeRequest request{
        .setting = setting, .values = mode.values, .live = live_workers(setting)};
    check_invariant(!request.live.empty(), "a plan is for at least one worker");
    SyncPlan plan = mode.entry->plan(request);
    if (plan.name.empty()) {
        plan.name = mode.unscaled();
    }
    complete(plan, setting);
    return plan;
}

SyncPlan make_plan(std::string_view mode, const ModeSetting& setting) {
    return make_plan(parse_mode(mode, setting), setting);
}

SyncPlan grouped_plan(const std::vector<std::vector<int>>& groups, const ModeSetting& setting) {
    SyncPlan plan;
    plan.name = "dynamic";
    for (const std::vector<int>& group : groups) {
        plan.cohorts.push_back(
            {.members = group, .riders = {}, .quorum = static_cast<int>(group.size())});
    }
    complete(plan, setting);
    return plan;
}

std::int64_t reference_batch_of(const ModeSetting& setting) noexcept {
    const std::int64_t workers = setting.workers_at_start > 0
                                     ? setting.workers_at_start
                                     : static_cast<std::int64_t>(setting.live.size());
    return workers * setting.batch;
}

std::string default_mode(Architecture architecture) {
    return architecture == Architecture::kRing ? "ring" : "ssgd";
}

bool is_synchronous(const SyncPlan& plan) {
    if (plan.cohorts.size() != 1 || plan.release != SyncPlan::Release::kOnFire) {
        return false;
    }
    const CohortSpec& all = plan.cohorts.front();
    return all.riders.empty() && static_cast<std::size_t>(all.quorum) >= all.members.size() &&
           all.count == CohortSpec::Count::kWorkers;
}

}  // namespace cohort
