#pragma once

#include <string>
#include <vector>

#include "train/live/run_view.hpp"

namespace cohort {

struct TextSize {
    int columns = 80;
    int rows = 0;  ///< 0: as many as there are workers need
};

/// The view of a run as lines of a terminal, without line ends. What comes from files cannot
/// control the terminal. @param colours  slow and lost workers stand out (ANSI)
[[nodiscard]] std::vector<std::string> view_text(const RunView& view, TextSize size, bool colours);

}  // namespace cohort
