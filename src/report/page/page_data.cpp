#include "report/page/page_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kModeColours = 7;

/// Near the target a subset of the test set and then the whole set are evaluated at the same time:
/// the evaluation of the larger set counts.
std::vector<EvaluationPoint> last_of_equal_times(const std::vector<EvaluationPoint>& points) {
    std::vector<EvaluationPoint> kept;
    for (const EvaluationPoint& point : points) {
        if (!kept.empty() && kept.back().virtual_s == point.virtual_s) {
            kept.pop_back();
        }
        kept.push_back(point);
    }
    return kept;
}

/// Keeps the options of `common` that this run has too.
void intersect(OptionList& common, const OptionList& options, bool first) {
    if (first) {
        common = options;
        return;
    }
    std::erase_if(common, [&options](const auto& option) {
        return option_of(options, option.first) != option.second;
    });
}

}  // namespace

PageData read_page_data(SweepResults results) {
    PageData data;
    data.results = std::move(results);
    data.comparison = compare(data.results);
    bool first = true;
    for (const std::vector<ComparedCell>& cells : data.comparison.cells) {
        std::vector<CellPictures>& row = data.pictures.emplace_back();
        for (const ComparedCell& cell : cells) {
            CellPictures& pictures = row.emplace_back();
            for (const RunRow& run : cell.rows) {
                SimulationResult result = read_result(run.file);
                intersect(data.common, result.options, first);
                first = false;
                pictures.runs.push_back({.evaluations = last_of_equal_times(result.evaluations),
                                         .lag_histogram = result.lag_histogram});
                if (pictures.runs.size() == 1) {
                    pictures.first = std::move(result);
                }
            }
        }
    }
    std::erase_if(data.common, [](const auto& option) { return option.second.empty(); });
    return data;
}

std::string mode_class(std::size_t mode) {
    const std::size_t dash = mode / kModeColours;
    return fmt::format("c{}{}", mode % kModeColours, dash > 0 ? fmt::format(" d{}", dash) : "");
}

}  // namespace cohort
