#include "train/live/view_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "cohort/core/clock.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

constexpr std::size_t kTextChanges = 3;
/// Columns of a row beside its bar.
constexpr std::size_t kRowColumns = 69;
constexpr std::size_t kLeastBar = 10;

bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not within one of UTF-8
}

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

/// Length of the character of UTF-8 that `text` begins with; 0: it is none that a terminal shows.
std::size_t printable_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x80U) {
        return byte(0) >= 0x20U && byte(0) != 0x7fU ? 1 : 0;
    }
    const std::size_t length = byte(0) >= 0xf0U ? 4 : byte(0) >= 0xe0U ? 3 : 2;
    if (byte(0) < 0xc2U || byte(0) > 0xf4U || text.size() < length ||
        std::ranges::any_of(text.substr(1, length - 1), begins_character)) {
        return 0;
    }
    return byte(0) == 0xc2U && byte(1) < 0xa0U ? 0 : length;  // U+0080 to U+009F control, too
}

/// Cut to so many columns, with dots when something is missing; a column per character. Control
/// characters and bytes that are no UTF-8 become question marks.
std::string fitted(std::string_view text, std::size_t columns) {
    constexpr std::string_view kDots = "...";
    const bool cut = width_of(text) > columns;
    const std::size_t keep = cut ? columns - std::min(columns, kDots.size()) : columns;
    std::string result;
    for (std::size_t width = 0; !text.empty() && width < keep; ++width) {
        const std::size_t bytes = printable_bytes(text);
        result += bytes > 0 ? std::string(text.substr(0, bytes)) : "?";
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return cut ? result + std::string(kDots.substr(0, columns)) : result;
}

/// Left and right text on one line; the left one gives way.
std::string both_sides(std::string_view left, std::string_view right, std::size_t columns) {
    const std::string end = fitted(right, columns);
    const std::string begin = fitted(left, columns - std::min(columns, width_of(end) + 2));
    const std::size_t gap = columns - std::min(columns, width_of(begin) + width_of(end));
    return begin + std::string(gap, ' ') + end;
}

std::string bar(double share, std::size_t columns, char rest) {
    const double within = std::isnan(share) ? 0 : std::clamp(share, 0.0, 1.0);
    const auto full = static_cast<std::size_t>(std::lround(within * static_cast<double>(columns)));
    return std::string(full, '#') + std::string(columns - full, rest);
}

std::string progress_line(const RunView& view, std::size_t columns) {
    const std::string numbers = fmt::format("{} of {} samples  {:.1f} %  eta {}",
                                            format_count(static_cast<std::uint64_t>(view.samples)),
                                            format_count(static_cast<std::uint64_t>(view.budget)),
                                            100 * view.share_done(), view.over ? "-" : view.eta());
    const std::size_t room = columns - std::min(columns, width_of(numbers) + 4);
    return room < kLeastBar ? fitted(numbers, columns)
                            : fmt::format("[{}]  {}", bar(view.share_done(), room, '.'), numbers);
}

std::string speed_line(const RunView& view) {
    std::string line = std::isnan(view.samples_per_s)
                           ? "no update yet"
                           : fmt::format("{:.0f} samples/s  {}", view.samples_per_s, view.scores);
    line += fmt::format("  {} live", counted(view.live, "worker"));
    return view.pending > 0
               ? fmt::format("{}  {} waiting", line, counted(view.pending, "push", "pushes"))
               : line;
}

std::string coloured(const std::string& line, WorkerView::State state, bool colours) {
    const char* const code = state == WorkerView::State::kLost   ? "31"
                             : state == WorkerView::State::kSlow ? "33"
                                                                 : nullptr;
    return colours && code != nullptr ? fmt::format("\033[{}m{}\033[0m", code, line) : line;
}

std::string worker_row(const WorkerView& worker, std::size_t bar_columns) {
    return fmt::format("{:>6}  {:<9}  {} {:>5}  {:>8}  {:>5}  {:>6}  {:>6}  {}", worker.worker,
                       word_of(worker.state), bar(worker.speed, bar_columns, '.'),
                       share_text(worker.speed), own_time_text(worker.own_s),
                       share_text(worker.waits), lag_text(worker.lag),
                       worker.batch > 0 ? std::to_string(worker.batch) : "-", worker.cause);
}

void add_workers(std::vector<std::string>& lines, const RunView& view, TextSize size,
                 bool colours) {
    if (view.workers.empty()) {
        return;
    }
    const auto columns = static_cast<std::size_t>(size.columns);
    const std::size_t room = size.rows > 0 ? static_cast<std::size_t>(std::max<std::ptrdiff_t>(
                                                 size.rows - std::ssize(lines) - 2, 2))
                                           : view.workers.size();
    const std::size_t bar_columns =
        columns > kRowColumns + kLeastBar ? columns - kRowColumns : kLeastBar;
    lines.emplace_back();
    lines.push_back(fitted(fmt::format("worker  state      {:<{}}  own time  waits     lag   batch"
                                       "  cause",
                                       "speed", bar_columns + 6),
                           columns));
    const std::vector<WorkerView> shown = shown_workers(view, room);
    for (const WorkerView& worker : shown) {
        lines.push_back(
            coloured(fitted(worker_row(worker, bar_columns), columns), worker.state, colours));
    }
    if (const std::string others = others_text(view, shown); !others.empty()) {
        lines.push_back(fitted(others, columns));
    }
}

}  // namespace

std::vector<std::string> view_text(const RunView& view, TextSize size, bool colours) {
    const auto columns = static_cast<std::size_t>(size.columns);
    const std::string what = view.model.empty()
                                 ? view.name
                                 : fmt::format("{}  {}  {}", view.model, view.setting, view.name);
    std::vector<std::string> lines{both_sides(
        what, fmt::format("{} {}", view.life, format_duration(Clock::Seconds(view.train_s))),
        columns)};
    if (view.budget > 0) {
        lines.push_back(progress_line(view, columns));
        lines.push_back(fitted(speed_line(view), columns));
    }
    if (!view.test.empty()) {
        lines.push_back(fitted("test: " + view.test, columns));
    }
    if (!view.note.empty()) {
        lines.push_back(fitted(view.note, columns));
    }
    for (std::size_t i = 0; i < std::min(view.changes.size(), kTextChanges); ++i) {
        const ChangeView& change = view.changes[i];
        lines.push_back(fitted(
            fmt::format("{:>8}  {}", format_duration(Clock::Seconds(change.train_s)), change.text),
            columns));
    }
    add_workers(lines, view, size, colours);
    return lines;
}

}  // namespace cohort
