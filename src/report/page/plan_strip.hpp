#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "report/page/svg.hpp"

namespace cohort {

/// Frame shared by pictures of a run with a row per worker, so that they align.
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

/// The stretches of a run with decisions; none without decisions. Between two stretches a plan
/// without a recorded decision may have been in force.
[[nodiscard]] std::vector<PlanStretch> plan_stretches(const SimulationResult& run);

/// "static:7; why; 5,000 samples/s predicted, 4,800 measured over 3.2 s; next best asgd".
[[nodiscard]] std::string words_of(const DecisionRecord& decision);

/// Draws the stretches between x.from and x.to as a bar, coloured by plan in the order of first
/// appearance in the run, named where there is room, with words_of() as tooltips.
void add_plan_strip(Picture& picture, const std::vector<PlanStretch>& stretches, const Scale& x,
                    double y, double height);

}  // namespace cohort
