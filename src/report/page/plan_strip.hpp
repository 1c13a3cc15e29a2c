#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "report/page/svg.hpp"

namespace cohort {

/// Of pictures of a run with a row per worker, so that one fits below the other.
struct RunFrame {
    double width = 900;
    double left = 66;
    double right = 12;
    double top = 22;
    double bottom = 32;
    int most_workers = 16;  ///< the first ones
};
inline constexpr RunFrame kRunFrame;

/// "<ul>...": a coloured square and a name each. @param letter  of the classes: "k0", "k1" ...
[[nodiscard]] std::string swatch_legend(char letter, const std::vector<std::string_view>& names);

/// A stretch of a run under one plan that a chooser decided on.
struct PlanStretch {
    double begin_s = 0;
    double end_s = 0;
    std::string plan;                          ///< "static:7"
    const DecisionRecord* decision = nullptr;  ///< null: before the first one
};

/// Of a run with decisions; none when nobody decided anything. Between two of them another one may
/// have had the say, who had no reasons to tell.
[[nodiscard]] std::vector<PlanStretch> plan_stretches(const SimulationResult& run);

/// "static:7; why; 5,000 samples/s predicted, 4,800 measured over 3.2 s; next best asgd".
[[nodiscard]] std::string words_of(const DecisionRecord& decision);

/// Draws those between x.from and x.to as a bar, coloured by plan in the order of their first
/// appearance in the run, named where there is room, with their words for the pointer.
void add_plan_strip(Picture& picture, const std::vector<PlanStretch>& stretches, const Scale& x,
                    double y, double height);

}  // namespace cohort
