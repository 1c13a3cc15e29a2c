#include "cohort/sched/mode_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/sched/chooser_options.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_schedule(std::string_view what, std::string_view text) {
    fail<UsageError>({.where = "--mode-schedule",
                      .what = what,
                      .expected = "SAMPLES:MODE,SAMPLES:MODE,... with ascending samples from 0",
                      .got = fmt::format("'{}'", text)});
}

/// Samples from which on a mode is in charge, and its text.
using Entry = std::pair<std::int64_t, std::string>;

/// "20000:static:6"; nothing for "0", the C of an "adadelay:1,0".
std::optional<Entry> parse_entry(std::string_view piece) {
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
    return Entry{samples, piece.substr(colon + 1)};
}

std::vector<Entry> parse_entries(std::string_view text) {
    std::vector<Entry> entries;
    std::string_view rest = text;
    while (true) {
        const std::size_t comma = rest.find(',');
        const std::string_view piece = rest.substr(0, comma);
        if (std::optional<Entry> entry = parse_entry(piece)) {
            entries.push_back(*std::move(entry));
        } else if (!entries.empty() && !piece.empty() &&
                   piece.find(':') == std::string_view::npos) {
            entries.back().second += fmt::format(",{}", piece);
        } else {
            fail_schedule("no number of samples before a mode", text);
        }
        if (comma == std::string_view::npos) {
            return entries;
        }
        rest.remove_prefix(comma + 1);
    }
}

}  // namespace

bool uses_model(std::string_view predictor) noexcept {
    return predictor == "lstm" || predictor == "auto";
}

void check_chooser_options(const ChooserOptions& options) {
    if (!options.predictor_file.empty() && !uses_model(options.predictor)) {
        fail<UsageError>({.where = "--predictor-file",
                          .what = "the file would not be read",
                          .expected = "--predictor lstm or auto",
                          .got = options.predictor_file});
    }
}

std::vector<ScheduledMode> parse_mode_schedule(std::string_view text, const ModeSetting& setting) {
    const std::vector<Entry> entries = parse_entries(text);
    const bool ascending = std::ranges::is_sorted(
        entries, [](const Entry& a, const Entry& b) { return a.first <= b.first; });
    const bool named =
        std::ranges::none_of(entries, [](const Entry& entry) { return entry.second.empty(); });
    if (!ascending || !named || entries.front().first != 0) {
        fail_schedule("not a sequence of modes", text);
    }
    std::vector<ScheduledMode> modes;
    for (const auto& [samples, mode] : entries) {
        modes.push_back({.samples = samples, .mode = parse_mode(mode, setting)});
    }
    return modes;
}

void understand_modes(ModeOptions& options, const ModeSetting& setting) {
    require(options.mode.empty() || options.mode_schedule.empty(), "--mode, --mode-schedule",
            "one of them", "both");
    if (!options.mode_schedule.empty()) {
        options.modes = parse_mode_schedule(options.mode_schedule, setting);
    } else {
        if (options.mode.empty()) {
            options.mode = default_mode(options.arch);
        }
        options.modes = {{.samples = 0, .mode = parse_mode(options.mode, setting)}};
    }
    require(options.noise_scale == 0 || options.lr_rule == SyncPlan::LrUnit::kAdaScale,
            "--noise-scale", "--lr-rule adascale", std::string(word_of(options.lr_rule)));
}

ModeSetting mode_setting(const ModeOptions& options, ModeSetting setting) {
    setting.architecture = options.arch;
    setting.stale_momentum = options.stale_momentum;
    setting.lr_rule = options.lr_rule;
    return setting;
}

}  // namespace cohort
