#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "report/page/page_data.hpp"
#include "report/page/svg.hpp"

namespace cohort {
namespace {

constexpr double kLagsWidth = 620;
constexpr double kLagsLeft = 150;
constexpr double kLagsRight = 90;
constexpr double kLagsTop = 22;
constexpr double kLagsBottom = 34;
constexpr double kLagsRow = 30;
constexpr double kBars = 24;     ///< of a row's height
constexpr double kRest = 0.001;  ///< share of a mode's pushes that the axis may leave out

/// Share of pushes by bin, all seeds together.
std::vector<double> shares_of(const CellPictures& cell) {
    std::vector<double> shares;
    for (const RunPictures& run : cell.runs) {
        shares.resize(std::max(shares.size(), run.lag_histogram.size()));
        for (std::size_t bin = 0; bin < run.lag_histogram.size(); ++bin) {
            shares[bin] += static_cast<double>(run.lag_histogram[bin]);
        }
    }
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) {
        share = all > 0 ? share / all : 0;
    }
    return shares;
}

/// Number of bins that hold all but kRest of the pushes.
std::size_t bins_needed(const std::vector<double>& shares) {
    double rest = 0;
    std::size_t bins = shares.size();
    while (bins > 0 && rest + shares[bins - 1] <= kRest) {
        rest += shares[--bins];
    }
    return bins;
}

void add_row(Picture& picture, std::size_t mode, const std::vector<double>& shares, const Scale& x,
             double base) {
    const double most = *std::ranges::max_element(shares);
    const double width = std::max(0.8, x(1.0 / SimulationResult::kLagBins) - x(0) - 0.6);
    std::string path;
    for (std::size_t bin = 0; bin < shares.size(); ++bin) {
        const double left = x(static_cast<double>(bin) / SimulationResult::kLagBins);
        if (shares[bin] > 0 && left < x.end) {
            const double height = std::max(0.6, kBars * shares[bin] / most);
            path += fmt::format("M{} {}v-{}h{}v{}z", place(left), place(base), place(height),
                                place(width), place(height));
        }
    }
    picture.add(fmt::format("<path class=\"bar {}\" d=\"{}\"/>", mode_class(mode), path));
    picture.text(x.end + 6, base - 4, "start", fmt::format("tallest {:.0f} %", 100 * most));
}

}  // namespace

std::string draw_lags(const PageData& data, std::size_t pattern) {
    std::vector<std::pair<std::size_t, std::vector<double>>> rows;
    std::size_t bins = SimulationResult::kLagBins;
    for (std::size_t mode = 0; mode < data.results.modes.size(); ++mode) {
        std::vector<double> shares = shares_of(data.pictures[mode][pattern]);
        if (std::accumulate(shares.begin(), shares.end(), 0.0) > 0) {
            bins = std::max(bins, bins_needed(shares));
            rows.emplace_back(mode, std::move(shares));
        }
    }
    if (rows.empty()) {
        return "";
    }
    const Scale x{.from = 0,
                  .to = static_cast<double>(bins) / SimulationResult::kLagBins,
                  .begin = kLagsLeft,
                  .end = kLagsWidth - kLagsRight};
    const double bottom = kLagsTop + static_cast<double>(rows.size()) * kLagsRow;
    Picture picture(fmt::format("lag{}", pattern), kLagsWidth, bottom + kLagsBottom,
                    "Lag of the applied gradients, " + data.results.patterns[pattern],
                    "A row per mode: how large a share of its pushes had which lag.");
    constexpr int kTicks = 8;
    picture.x_axis(x, bottom, bottom - kLagsTop, round_ticks(0, x.to, kTicks),
                   "lag, reference batches");
    if (std::ranges::any_of(rows, [bins](const auto& row) {
            return row.second.size() == bins && row.second.back() > 0;
        })) {
        picture.text(x.end, kLagsTop - 8, "end", "last bar: this lag and more");
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const double base = kLagsTop + static_cast<double>(row + 1) * kLagsRow;
        picture.text(kLagsLeft - 6, base - 4, "end", data.results.modes[rows[row].first].name);
        add_row(picture, rows[row].first, rows[row].second, x, base);
    }
    return picture.done();
}

}  // namespace cohort
