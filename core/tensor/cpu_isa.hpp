#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// What is wrong with a variable that limits oneDNN to a level of instructions; empty: nothing.
/// @param level  what it says  @param used  what oneDNN uses, as cpu_isa() has it
[[nodiscard]] std::string level_doubt(std::string_view variable, std::string_view level,
                                      std::string_view used);

}  // namespace cohort
