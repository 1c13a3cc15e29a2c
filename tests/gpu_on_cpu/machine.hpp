#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

/// The machine that is played, as a test wants it.
namespace cohort::on_cpu {

struct PlayedMachine {
    std::vector<std::pair<int, int>> gpus{{9, 0}};  ///< their compute capabilities
    std::set<std::string> missing;  ///< libraries, as messages call them, and functions

    // What there is of it now.
    int recordings = 0;
    int dnn_plans = 0;
    int compiled_plans = 0;  ///< made so far: plans of graphs with several operations
};
/// For the whole process.
PlayedMachine& played_machine();

}  // namespace cohort::on_cpu
