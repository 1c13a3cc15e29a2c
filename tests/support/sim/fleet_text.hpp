#pragma once

#include <string>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "data/file/text_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort::test {

/// The plan of a file with this text.
inline FleetPlan plan_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
    const TempFolder folder;
    replace_text_file(folder.file("fleet.toml"), text);
    return read_fleet(folder.file("fleet.toml"), overrides);
}

}  // namespace cohort::test
